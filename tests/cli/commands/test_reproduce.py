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


def test_computed_figures_need_no_spark(run, tmp_path, monkeypatch):
    monkeypatch.setattr("keyspread.cli.common.session.spark_session", None)  # a call would fail
    code, out, err = run("3", "fig-6", "--out", tmp_path)
    assert (code, err) == (0, "")
    assert "At least 80 % fewer" in out
    assert "79.6 %" in out
    assert "4 claims: 3 hold, 1 holds in part, 0 do not hold; 1 check of our own, not counted" in " ".join(out.split())
    assert all(len(line) <= 80 for line in out.splitlines() if str(tmp_path) not in line)
    assert set(os.listdir(tmp_path)) == {"report.html", "figures", "tables", "verdicts.json", "results"}
    assert set(os.listdir(tmp_path / "figures")) == {"figure-03.svg", "figure-06.svg"}


def test_a_folder_of_the_user_on_spark(run, spark, tmp_path):
    """Malformed lines and files that are no streams are noted and skipped; a second run has nothing to simulate."""
    folder = tmp_path / "data"
    folder.mkdir()
    lines = [f"{time}\t{'hot' if time % 3 else time % 40}\n" for time in range(3000)]
    (folder / "clicks.tsv").write_text("".join([*lines[:100], "broken\n", *lines[100:]]))
    (folder / "more.tsv").write_text("1\ta\n2\tb\n")
    (folder / "README.md").write_text("# About these\n")
    arguments = ["11", "12", "--input", folder, "--seeds", "1", "--out", tmp_path / "out"]
    code, out, err = run(*arguments, "--json")
    assert code == 0
    assert "skipped 1 malformed line, line 101: 'broken'" in err
    assert "keyspread: note: skipped" in err
    assert "README.md" in err
    said = json.loads(out)
    assert said["format"] == 1
    assert [(figure["name"], figure["runs"]) for figure in said["figures"]] == [("11", 30), ("12", 18)]
    assert all(verdict["outcome"] for verdict in said["figures"][0]["verdicts"])
    page = (tmp_path / "out" / "report.html").read_text()
    assert "clicks.tsv" in page
    assert "more.tsv" in page
    before = sorted(os.listdir(tmp_path / "out" / "results"))
    assert run(*arguments)[0] == 0
    assert sorted(os.listdir(tmp_path / "out" / "results")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fig-2"], "figure 2 is a diagram of skewed keys on workers: there is nothing to compute, leave it out"),
        (["15"], "unknown figure '15'; known are 1, 3, 4"),
        (["--size", "huge"], "size must be one of quick, paper, got 'huge'"),
        (["3", "--input", "{folder}/other"], "other: no stream found"),
        (["3", "--format", "csv"], "--format is for --input, got 'csv' without it"),
        (["3", "--input", "{folder}/table.csv", "--key", "user"], "'user'"),
        (["13", "--out", "{folder}/other"], "deployment.json: cannot be used (Expecting value"),
        (["3", "--out", "{folder}/empty.tsv"], "empty.tsv/results: cannot be written (Not a directory)"),
    ],
)
def test_a_mistake_is_exit_code_2_and_one_line(run, tmp_path, arguments, message):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "deployment.json").write_text("# Notes\n")
    (tmp_path / "empty.tsv").write_text("")
    (tmp_path / "table.csv").write_text("name,amount\nanna,1\n")
    given = [argument.format(folder=tmp_path) for argument in arguments]
    code, out, err = run(*given, *([] if "--out" in given else ["--out", tmp_path / "out"]))
    assert (code, out) == (2, "")
    assert message in err
    errors = [line for line in err.splitlines() if line.startswith("keyspread: error: ")]
    assert len(errors) == 1
    assert "Traceback" not in err
