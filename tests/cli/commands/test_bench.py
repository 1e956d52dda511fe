"""`keyspread bench deployment`: a small one on the tests' Spark, one line for a mistake, no process after Ctrl-C."""

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
from keyspread.spark.launch.cluster import running_processes

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
    found = json.loads(out)
    assert [row["scheme"] for row in found["summary"]] == ["key", "shuffle"]
    for row in found["summary"]:
        assert row["rate"] < row["working_rate"] <= 1.05 * row["predicted_rate"]
        assert row["busiest"] >= 0.09
        assert row["longest_queue"] == pytest.approx(100, abs=10)
    assert {run["kind"] for run in found["latency"]} == {"queues", "micro-batches"}
    for one in found["latency"]:
        assert 0.001 <= one["waiting"]["p50"] <= one["waiting"]["p99"]
        assert one["messages"] == 80  # 0.2 s at a fifth of 2,000 per second
    key, shuffle = found["throughput"]
    assert key["replicas"] < shuffle["replicas"]
    assert shuffle["messages"] > key["messages"]  # scaled, so that the busiest worker works equally long


def test_the_screen(run, spark):
    code, out, _ = run(*SMALL, "--schemes", "planned", "--arrivals", "0", "--work", "cpu", "--milliseconds", "0.5")
    assert code == 0
    assert "2 senders, 2 workers, 0.5 ms per message (cpu)" in out
    assert "throughput at saturation" in out
    assert "latency" not in out
    assert all(len(line) <= 80 and "…" not in line for line in out.splitlines())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "3"], "Spark has 2 cores here and cannot run 3 workers at once"),
        (["--senders", "0"], "senders must be at least 1, got 0"),
        (["--workers", "0"], "workers must be at least 1, got 0"),
        (["--skews", "high"], "--skews must be numbers separated by commas, such as 1.4,2.0, got 'high'"),
        (["--schemes", "kg,best"], "unknown scheme 'best'"),
        (["--work", "nap"], "work must be one of sleep, cpu, got 'nap'"),
        (["--executors", "0"], "executors must be at least 1, got 0"),
        (
            ["--executors", "2", "--master", "local[2]"],
            "--executors starts a new cluster, got --master local[2]",
        ),
        (["--master", "sc://host"], "--master sc://host is Spark Connect"),
        (["--master", "nowhere"], "unknown master 'nowhere'"),
        (["--messages", "many"], "must be a whole number such as"),
    ],
)
def test_a_mistake_is_exit_code_2_and_one_line(run, spark, arguments, message):
    code, out, err = run(*SMALL, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.spark
def test_ctrl_c_leaves_no_process(tmp_path):
    """Interrupt a cluster while its workers work: the command, its JVMs and their Python workers must end."""
    mark = f"keyspread-test-{os.getpid()}-{time.time_ns()}"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"TMPDIR": str(tmp_path), "KEYSPREAD_TEST_MARK": mark}
    command = [sys.executable, "-c", "import sys; from keyspread.cli import main; sys.exit(main(sys.argv[1:]))"]
    command += [
        "bench",
        "deployment",
        "--executors",
        "1",
        *SMALL,
        "--workers",
        "1",
        "--schemes",
        "kg",
        "--seconds",
        "300",
    ]
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
    found = {}
    for pid, (_, command) in running_processes().items():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark.encode() in file.read():
                    found[pid] = command
        except OSError:
            continue
    return found


def python_workers(mark):
    return [command for command in marked(mark).values() if "kernel_daemon" in command]


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.2)
