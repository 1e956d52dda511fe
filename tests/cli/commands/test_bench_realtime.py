"""`keyspread bench deployment --realtime` without a broker: its screen, and one line for a mistake."""

import logging

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("typer")

from keyspread.cli import main
from keyspread.cli.screens.bench_realtime import show
from keyspread.deployment.live import bench
from keyspread.spark import kafka


@pytest.fixture
def run(capsys, monkeypatch):
    def run(*arguments):
        code = main(["bench", "deployment", *arguments])
        return code, *capsys.readouterr()

    logging.disable(logging.CRITICAL)
    yield run
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--realtime", "--realtime needs a Kafka broker: pass --brokers HOST:PORT, such as --brokers localhost:9092"),
        ("--realtime --brokers localhost:1", "localhost:1: no Kafka broker answers"),
        ("--realtime --brokers localhost", "brokers must be host:port"),
        ("--realtime --brokers b:1 --work cpu", "--realtime works by waiting, got --work cpu"),
        ("--realtime --brokers b:1 --repetitions 2", "--repetitions has no effect with --realtime, got 2: leave it"),
        ("--realtime --brokers b:1 --messages 1e3", "--messages has no effect with --realtime, got 1000: leave it"),
        ("--realtime --brokers b:1 --schemes planned", "planned does not work with realtime=True, because it counts"),
        ("--realtime --brokers b:1 --rates 9,3", "rates must be above 0 and rising, got 9, 3"),
        ("--realtime --brokers b:1 --rates ,", "rates must be above 0 and rising, got 0"),
        ("--realtime --brokers b:1 --rates fast", "--rates must be numbers separated by commas, such as 1.4,2.0, got"),
        ("--realtime --brokers b:1 --workers 0", "workers must be at least 1, got 0"),
        ("--realtime --brokers b:1 --senders 0", "senders must be at least 1, got 0"),
        ("--realtime --brokers b:1 --arrivals 0", "arrivals must be above 0, got 0"),
        ("--realtime --brokers b:1 --master sc://host", "--master sc://host is Spark Connect"),
        ("--brokers b:1", "--brokers is for --realtime only, got 'b:1': leave it out, or add --realtime"),
        ("--rates 5", "--rates is for --realtime only, got '5': leave it out, or add --realtime"),
    ],
)
def test_a_mistake_is_exit_code_2_and_one_line_before_spark_starts(run, arguments, message):
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_a_spark_without_real_time_mode_is_refused_in_one_line(run, spark, monkeypatch):
    monkeypatch.setattr(kafka, "check_brokers", lambda brokers: None)
    monkeypatch.setattr(bench, "has_realtime_exchange", lambda spark: False)
    code, out, err = run("--realtime", "--brokers", "localhost:1")
    assert (code, out) == (2, "")
    assert err.startswith("keyspread: error: --realtime needs a Spark that exchanges rows in real-time mode, from 4.3")
    assert len(err.strip().splitlines()) == 1


def test_the_screen_fits_80_columns_and_has_the_model_beside_every_value(live_deployment, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    show(live_deployment)
    out = capsys.readouterr().out
    assert "2 senders, 4 workers, 20 ms per message (waiting) on local[16]" in out
    assert "4 workers, not the paper's 80" in out
    assert "Zipf 2: latency at 100 messages per second (50 % of the best possible), ms" in out
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line.startswith(("key ", "d-choices "))}
    assert lines["key"][2] == "%"
    assert lines["key"][3] == "↑"
    assert lines["d-choices"][3:5] == [lines["d-choices"][3]] * 2  # p50 and its model, which are the same here
    assert all(len(line) <= 80 and "…" not in line for line in out.splitlines())
