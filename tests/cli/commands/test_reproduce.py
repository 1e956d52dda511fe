"""`keyspread reproduce`: figures by name, one page, verdicts as JSON, and one line for a mistake."""

import json
import logging
import os

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("typer")
pytest.importorskip("matplotlib")

from keyspread.cli import main


@pytest.fixture
def run(capsys, monkeypatch):
    def run(*arguments):
        code = main(["reproduce", *(str(argument) for argument in arguments)])
        return code, *capsys.readouterr()

    monkeypatch.setenv("COLUMNS", "80")
    logging.disable(logging.CRITICAL)  # PySpark's logger writes to pytest's stream, not to the descriptor that is held
    yield run
    logging.disable(logging.NOTSET)


@pytest.fixture
def clicks(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    lines = [f"{time}\t{'hot' if time % 3 else time % 40}\n" for time in range(3000)]
    (folder / "clicks.tsv").write_text("".join([*lines[:100], "broken\n", *lines[100:]]))
    return folder / "clicks.tsv"


def test_computed_figures_need_no_spark(run, tmp_path, monkeypatch):
    monkeypatch.setattr("keyspread.cli.spark_session.spark_session", None)  # a call would fail
    code, out, err = run("3", "fig-6", "--out", tmp_path)
    assert (code, err) == (0, "")
    assert "At least 80 % fewer" in out
    assert "79.6 %" in out
    assert "4 claims: 3 hold, 1 holds in part, 0 do not hold; 1 check of our own, not counted" in " ".join(out.split())
    assert all(len(line) <= 80 for line in out.splitlines() if str(tmp_path) not in line)
    assert {"report.html", "figures", "tables", "verdicts.json", "verdicts.md", "results"} <= set(os.listdir(tmp_path))
    assert {"figure-03.svg", "figure-03.png", "figure-06.svg"} <= set(os.listdir(tmp_path / "figures"))


def test_files_of_the_user_on_spark(run, spark, tmp_path, clicks):
    arguments = ["11", "--input", clicks, "--seeds", "1", "--out", tmp_path / "out"]
    code, out, err = run(*arguments, "--json")
    assert code == 0
    assert err.count("\n") == 1
    assert "skipped 1 malformed line, line 101: 'broken'" in err
    said = json.loads(out)
    assert said["format"] == 1
    assert [one["name"] for one in said["figures"]] == ["11"]
    assert said["figures"][0]["runs"] == 15
    assert all(verdict["outcome"] for verdict in said["figures"][0]["verdicts"])
    page = (tmp_path / "out" / "report.html").read_text()
    assert "clicks.tsv" in page
    # The second run has nothing to simulate.
    before = sorted(os.listdir(tmp_path / "out" / "results"))
    assert run(*arguments)[0] == 0
    assert sorted(os.listdir(tmp_path / "out" / "results")) == before


def test_a_folder_of_streams_skips_other_files(run, spark, tmp_path, clicks):
    (clicks.parent / "README.md").write_text("# About these\n")
    (clicks.parent / "more.tsv").write_text("1\ta\n2\tb\n")
    code, out, err = run("12", "--input", clicks.parent, "--seeds", "1", "--out", tmp_path / "out", "--json")
    assert code == 0
    assert "keyspread: note: skipped" in err
    assert "README.md" in err
    page = (tmp_path / "out" / "report.html").read_text()
    assert "more.tsv" in page
    assert json.loads(out)["figures"][0]["runs"] == 18


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["2"], "figure 2 is a diagram of skewed keys on workers: there is nothing to compute, leave it out"),
        (["15"], "unknown figure '15'; known are 1, table-1"),
        (["--size", "huge"], "--size must be one of quick, paper, got 'huge'"),
        (["--seeds", "0"], "seeds must be at least 1, got 0"),
        (["3", "--input", "{folder}/nowhere.tsv"], "nowhere.tsv: no such file"),
        (["3", "--input", "{folder}/empty"], "empty: nothing in this folder"),
        (["3", "--input", "{folder}/other"], "other: no stream found"),
        (["3", "--input", "{folder}/other/notes.md"], "notes.md: neither the ending nor the first line"),
        (["3", "--input", "{folder}/empty.tsv"], "empty.tsv: no messages (the file is empty)"),
        (["3", "--format", "csv"], "--format is for --input, got 'csv' without it"),
        (["3", "--input", "{folder}/table.csv"], "table.csv: "),
        (["3", "--input", "{folder}/table.csv", "--key", "user"], "'user'"),
        (["3", "--master", "nowhere"], "nowhere"),
        (["13", "--deployment", "{folder}/nothing.json"], "nothing.json: cannot be used (No such file"),
        (["13", "--deployment", "{folder}/table.csv"], "table.csv: cannot be used (Expecting value"),
        (["3", "--out", "{folder}/empty.tsv"], "empty.tsv/results: cannot be written (Not a directory)"),
    ],
)
def test_a_mistake_is_exit_code_2_and_one_line(run, tmp_path, arguments, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.md").write_text("# Notes\n")
    (tmp_path / "empty.tsv").write_text("")
    (tmp_path / "table.csv").write_text("name,amount\nanna,1\n")
    given = [argument.format(folder=tmp_path) for argument in arguments]
    code, out, err = run(*given, *([] if "--out" in given else ["--out", tmp_path / "out"]))
    assert (code, out) == (2, "")
    assert message in err
    errors = [line for line in err.splitlines() if line.startswith("keyspread: error: ")]
    assert len(errors) == 1
    assert "Traceback" not in err


def test_results_of_another_version_are_refused(run, tmp_path, monkeypatch, clicks, spark):
    arguments = ["11", "--input", clicks, "--seeds", "1", "--out", tmp_path / "out"]
    monkeypatch.setattr("keyspread.evaluation.result_store.TABLE_FORMAT", "0")
    from keyspread.evaluation.result_store import Results
    from keyspread.experiments.reproduce import FIGURES
    from keyspread.experiments.scale import find_scale
    from keyspread.streams import FileStream

    one = FIGURES["11"].runs(find_scale("quick", 1, [FileStream(str(clicks), "tsv")]))[0]
    Results(tmp_path / "out" / "results").add(one.result())
    monkeypatch.undo()
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert "(table format 0), this is" in err
