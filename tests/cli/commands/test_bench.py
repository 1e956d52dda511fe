"""`keyspread bench deployment`: a small run on Spark, its screens, one line for a mistake, and nothing left behind."""

import json
import logging
import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("typer")

from keyspread.cli import main
from keyspread.cli.screens.paper import show_live
from keyspread.paper.live import measure as bench
from keyspread.spark import kafka
from keyspread.spark._launch.cluster import running_processes

SMALL = ["--workers", "2", "--senders", "2", "--skews", "2.0", "--seconds", "0.1", "--repetitions", "1"]


@pytest.fixture
def run(capsys, monkeypatch):
    def run(*arguments):
        code = main(["bench", "deployment", *arguments])
        return code, *capsys.readouterr()

    monkeypatch.setenv("COLUMNS", "80")
    logging.disable(logging.CRITICAL)
    yield run
    logging.disable(logging.NOTSET)


def test_a_small_deployment_as_json(run, spark):
    code, out, _ = run(*SMALL, "--schemes", "kg,sg", "--arrivals", "0.2", "--json")
    assert code == 0
    said = json.loads(out)
    assert [row["scheme"] for row in said["summary"]] == ["key", "shuffle"]
    for row in said["summary"]:
        assert row["rate"] < row["working_rate"] <= 1.05 * row["predicted_rate"]
        assert row["busiest"] >= 0.09
        assert row["longest_queue"] == pytest.approx(100, abs=10)
    assert {run["kind"] for run in said["latency"]} == {"queues", "micro-batches"}
    for measured in said["latency"]:
        assert 0.001 <= measured["waiting"]["p50"] <= measured["waiting"]["p99"]
        assert measured["messages"] == 80  # 0.2 s at a fifth of 2,000 per second
    key, shuffle = said["throughput"]
    assert key["replicas"] < shuffle["replicas"]
    assert shuffle["messages"] > key["messages"]  # scaled, so that the busiest worker works equally long


def test_the_screen(run, spark):
    code, out, _ = run(*SMALL, "--schemes", "planned", "--arrivals", "0", "--milliseconds", "0.5")
    assert code == 0
    assert "2 senders, 2 workers, 0.5 ms per message (waiting)" in out
    assert "throughput at saturation" in out
    assert "latency" not in out
    assert all(len(line) <= 80 and "…" not in line for line in out.splitlines())


def test_the_live_screen_has_the_model_beside_every_value(live_deployment, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    show_live(live_deployment)
    out = capsys.readouterr().out
    assert "2 senders, 4 workers, 20 ms per message (waiting) on local[16]" in out
    assert "4 workers, not the paper's 80" in out
    assert "Zipf 2: latency at 100 messages per second (50 % of the best possible), ms" in out
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line.startswith(("key ", "d-choices "))}
    assert lines["key"][2:4] == ["%", "↑"]
    assert lines["d-choices"][3:5] == [lines["d-choices"][3]] * 2  # p50 and its model, which are the same here
    assert all(len(line) <= 80 and "…" not in line for line in out.splitlines())


LIVE = ["--realtime", "--brokers", "b:1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "3"], "Spark has 2 cores here and cannot run 3 workers at once"),
        (["--skews", "high"], "--skews must be numbers separated by commas, such as 1.4,2.0, got 'high'"),
        (["--repetitions", "many"], "must be a whole number such as"),
        (["--brokers", "b:1"], "--brokers is for --realtime only, got 'b:1': leave it out, or add --realtime"),
        (["--realtime"], "--realtime needs a Kafka broker: pass --brokers HOST:PORT, such as --brokers localhost:9092"),
        (["--realtime", "--brokers", "localhost:1"], "localhost:1: no Kafka broker answers"),
        (["--realtime", "--brokers", "localhost"], "brokers must be host:port"),
        ([*LIVE, "--repetitions", "2"], "--repetitions has no effect with --realtime, got 2: leave it out"),
        ([*LIVE, "--rates", "fast"], "--rates must be numbers separated by commas, such as 1.4,2.0, got 'fast'"),
    ],
)
def test_a_mistake_is_exit_code_2_and_one_line(run, spark, arguments, message):
    code, out, err = run(*([] if "--realtime" in arguments else SMALL), *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_a_spark_without_real_time_mode_is_refused(run, spark, monkeypatch):
    monkeypatch.setattr(kafka, "check_brokers", lambda brokers: None)
    monkeypatch.setattr(bench, "has_realtime_exchange", lambda spark: False)
    code, out, err = run(*LIVE)
    assert (code, out) == (2, "")
    assert err.startswith("keyspread: error: --realtime needs a Spark that exchanges rows in real-time mode, from 4.3")


@pytest.mark.slow
@pytest.mark.spark
def test_ctrl_c_leaves_no_process(tmp_path):
    """Interrupt a Spark while its workers work: the command, its JVM and their Python workers must end."""
    mark = f"keyspread-test-{os.getpid()}-{time.time_ns()}"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"TMPDIR": str(tmp_path), "KEYSPREAD_TEST_MARK": mark}
    command = [sys.executable, "-c", "import sys; from keyspread.cli import main; sys.exit(main(sys.argv[1:]))"]
    command += ["bench", "deployment", *SMALL, "--workers", "1", "--schemes", "kg", "--seconds", "300"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        try:
            wait_for(lambda: len(python_workers(mark)) >= 2, 120)  # the daemon and a worker at least
            started.send_signal(signal.SIGINT)
            started.wait(60)
        finally:
            started.kill()
    assert started.returncode == 130
    wait_for(lambda: not marked(mark), 20)
    assert marked(mark) == {}


def marked(mark):
    """Return the processes that inherited the mark in their environment."""
    processes = {}
    for pid, (_, command) in running_processes().items():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark.encode() in file.read():
                    processes[pid] = command
        except OSError:
            continue
    return processes


def python_workers(mark):
    return [command for command in marked(mark).values() if "kernel_daemon" in command]


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.2)
