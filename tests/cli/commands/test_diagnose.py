"""`keyspread diagnose`: findings for people, JSON and a page; one line for whatever cannot be read."""

import json

import pytest

pytest.importorskip("typer")

from keyspread.cli import main
from made_logs import skewed_log


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments):
        code = main(["diagnose", *(str(argument) for argument in arguments)])
        return code, *capsys.readouterr()

    return run


def test_the_findings_of_a_log(run, tmp_path):
    code, out, err = run(skewed_log().write(tmp_path))
    assert (code, err) == (0, "")
    assert "Key skew by customer: at most 3.3 of 6.2 s lost." in out
    assert "sort-merge join by customer" in out
    assert "Adaptive execution: on; 391 KiB < 256 MB: not split" in out
    assert 'keyspread.spark.join(left, right, on=[("customer", "id")])' in out
    assert "The lines need: import keyspread.spark; from pyspark.sql import functions as F" in out
    assert max(map(len, out.splitlines())) <= 100


def test_json_and_a_page(run, tmp_path):
    code, out, err = run(skewed_log().write(tmp_path), "--json", "--html", tmp_path / "page.html")
    assert (code, err) == (0, "")
    content = json.loads(out)
    (application,) = content["applications"]
    (finding,) = application["findings"]
    assert (finding["kind"], finding["keys"], finding["stage"]) == ("key-skew", ["customer"], 0)
    assert finding["lost_s"] == pytest.approx(3.28, abs=0.01)
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_a_page_that_cannot_be_written(run, tmp_path):
    code, out, err = run(skewed_log().write(tmp_path), "--html", tmp_path / "nowhere" / "page.html")
    assert (code, out, "cannot be written" in err) == (2, "", True)


@pytest.mark.parametrize("named", ["log", "./log", "folder", "link"])
def test_a_page_never_overwrites_a_log(run, tmp_path, monkeypatch, named):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    folder = tmp_path / "folder" if named == "folder" else tmp_path
    log = skewed_log().write(folder)
    (tmp_path / "link").symlink_to(log)
    before = log.read_bytes()
    code, out, err = run(named, "--html", log)
    assert (code, out, log.read_bytes()) == (2, "", before)
    assert "would overwrite" in err
    assert len(err.splitlines()) == 1
    page = folder / "page.html"
    assert [run(named, "--html", page)[0] for _ in range(2)] == [0, 0]  # a page may be written again


def test_bad_input_is_one_line(run, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_bytes(b"one,two\n1,2\n")
    for name, message in (("none", "no file or folder"), ("empty", "no event log in"), ("text", "not an event log")):
        code, out, err = run(tmp_path / name)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err


@pytest.fixture
def orders(tmp_path):
    path = tmp_path / "orders.csv"
    path.write_text("customer,region\n" + "".join(f"{7 if i % 2 else i},{i % 500}\n" for i in range(2000)))
    return path


def test_keys_of_a_file(run, spark, orders):
    code, out, _ = run(orders, "--key", "customer", "--key", "region", "--workers", "8", "--json")
    assert code == 0
    (table,) = json.loads(out)["applications"]
    assert [finding["keys"] for finding in table["findings"]] == [["customer"], ["region"]]
    assert table["findings"][0]["values"][0]["key"] == "7"
    every = json.loads(run(orders, "--any", "--workers", "8", "--json")[1])["applications"][0]
    assert every["findings"] == table["findings"]


def test_the_keys_of_a_log_in_a_file(run, spark, orders, tmp_path):
    code, out, _ = run(skewed_log().write(tmp_path), "--data", orders)
    assert code == 0
    assert "1,000 rows   50.00 %" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "8"], "--workers is for counting data"),
        (["--key", "customer", "--workers", "0"], "--workers"),
        (["--data", "nowhere.csv", "--workers", "7"], "--workers is not for --data"),
        (["--key", "a", "--any"], "--any counts every column"),
        (["--key", "a", "--data", "x.csv"], "leave out --key and --any"),
        (["other", "--key", "a"], "count one file, folder or table, got 2"),
        (["--data", "nowhere.csv"], "nowhere.csv"),
    ],
)
def test_options_that_do_not_go_together(arguments, message, run, tmp_path):
    code, out, err = run(skewed_log().write(tmp_path), *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
