"""`keyspread run --streaming`: stopped and resumed, it neither loses nor repeats a row; a mistake is one line."""

import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from urllib.request import urlopen

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("typer")

from keyspread.job.run_record import RunRecord

from keyspread.cli import interruption, main
from keyspread.errors import InputError
from keyspread.streams import DriftingZipfStream

DRIFT = ["--input", "drift", "--keys", "300", "--every", "700", "--skew", "1.3", "--seed", "3", "--workers", "4"]


@pytest.fixture
def run(spark, capsys):
    """Run on the session of the tests: (exit code, stdout, stderr)."""

    def run(*arguments):
        code = main(["run", *(str(argument) for argument in arguments)])
        return code, *capsys.readouterr()

    logging.disable(logging.CRITICAL)  # PySpark's logger writes to pytest's stream, not to the descriptor that is held
    yield run
    logging.disable(logging.NOTSET)


def progress(checkpoint):
    try:
        return json.loads((checkpoint / "keyspread" / "progress.json").read_text())
    except FileNotFoundError:
        return {"batch": -1, "rows": 0}


def interrupt_at(checkpoint, batch):
    """Send Ctrl-C when this batch is done."""

    def press():
        end = time.monotonic() + 300
        while progress(checkpoint)["batch"] < batch and time.monotonic() < end:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()


def counted(spark, out):
    """Return the count of every key over all batches, and the numbers of the batches."""
    rows = spark.read.parquet(str(out)).collect()
    found = Counter()
    for row in rows:
        found[row["key"]] += row["count"]
    return found, sorted({row["batch"] for row in rows})


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_an_interrupted_stream_resumes_without_losing_or_repeating_a_row(run, spark, tmp_path):
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"
    same = ["--streaming", *DRIFT, "--checkpoint", checkpoint, "--out", out, "--top", 3]
    code, said, noted = run(*same, "--rate", 5000, "--trigger", 0.2, "--batches", 2, "--senders", 2, "--json")
    assert code == 0
    assert noted == f"keyspread: note: run the same command again to resume from --checkpoint {checkpoint}\n"
    *lines, last = [json.loads(line) for line in said.splitlines()]
    assert {line["type"] for line in lines} == {"batch"}
    assert {line["format"] for line in (*lines, last)} == {1}
    assert (last["type"], last["input"]) == ("total", "drift")
    assert [(line["batch"], line["rows"]) for line in lines] == [(0, 1000), (1, 1000)]
    assert all(sum(line["loads"]) == 1000 and len(line["hottest"]) == 3 for line in lines)
    assert all(line["hottest"][0]["share"] == line["hottest"][0]["rows"] / 1000 > 0 for line in lines)
    expected = {"source": "drift", "law_keys": 300, "scheme": "look-ahead", "workers": 4, "partitions": 2}
    expected |= {"batches": 2, "rows": 2000, "rows_so_far": 2000, "malformed": 0, "out": str(out)}
    assert {name: last["total"][name] for name in expected} == expected

    interrupt_at(checkpoint, 3)
    code, said, noted = run(*same, "--rate", 700, "--trigger", 1)  # at another rate, with other senders
    assert code == 0
    assert "run the same command again to resume" in noted
    *table, total, _ = said.splitlines()
    batches = [line.split() for line in table[2:]]
    assert [batch[0] for batch in batches] == [str(2 + i) for i in range(len(batches))]
    # The first batch may have been planned at the old rate, before the first run stopped.
    assert [batch[1] for batch in batches[1:]] == ["700"] * (len(batches) - 1)
    assert len(batches) >= 2
    rows = sum(int(batch[1].replace(",", "")) for batch in batches)
    assert f"{len(batches)} batches, {rows:,} rows in " in total
    assert f"; {2000 + rows:,} rows including earlier runs" in total
    assert progress(checkpoint)["rows"] == 2000 + rows

    # The scheme and the workers may change: results are merged by key.
    code, said, _ = run(
        *same, "--rate", 500, "--trigger", 1, "--batches", 1, "--scheme", "pkg", "--workers", 3, "--json"
    )
    assert code == 0
    line, last = [json.loads(line) for line in said.splitlines()]
    assert (len(line["loads"]), list(line["hottest"][0])) == (3, ["key", "rows", "share"])
    total = last["total"]["rows_so_far"]
    found, batches = counted(spark, out)
    law = DriftingZipfStream(1.3, 300, total, every=700, hottest=100, seed=3).law()
    assert found == Counter(law.draw(0, total).tolist())
    assert batches == list(range(len(batches)))


def test_a_folder_that_grows(run, spark, tmp_path):
    folder, checkpoint, out = tmp_path / "clicks", tmp_path / "checkpoint", tmp_path / "out"
    folder.mkdir()
    (folder / "1.csv").write_text("key,spent\n" + "anna,1\n" * 30 + "007,2\n" * 3 + "broken,1,2\n")
    same = ["--live", "--input", folder, "--key", "key", "--workers", 2, "--checkpoint", checkpoint, "--out", out]
    same += ["--aggregate", "count=count(*)", "--aggregate", "total=sum(spent)"]
    code, said, noted = run(*same, "--batches", 1)
    assert code == 0
    assert said.splitlines()[0] == "look-ahead, 2 workers: clicks"  # no terminal, so no picture
    assert said.splitlines()[2].split()[:2] == ["0", "33"]
    assert said.splitlines()[-2].startswith("1 batch, 33 rows in ")
    assert "clicks: skipped 1 malformed" in noted
    (folder / "2.csv").write_text("key,spent\nanna,5\n")
    code, said, _ = run(*same, "--batches", 1)
    assert code == 0
    assert "1 batch, 1 row in " in said
    assert counted(spark, out) == ({"anna": 31, "007": 3}, [0, 1])
    assert sum(row["total"] for row in spark.read.parquet(str(out)).collect()) == 30 + 6 + 5
    code, _, noted = run(*same[:-4], "--batches", 1)
    assert (code, noted.count("\n")) == (2, 1)
    assert "belongs to another run (aggregate was" in noted


def test_a_time_limit_without_a_checkpoint(run, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, said, noted = run("--streaming", "--keys", 50, "--seconds", 2, "--rate", 100, "--workers", 2, "--json")
    assert code == 0
    *lines, last = [json.loads(line) for line in said.splitlines()]
    assert last["total"]["rows"] == 100 * len(lines) == last["total"]["rows_so_far"]
    assert "this run cannot be resumed: it has no --checkpoint folder" in noted
    assert not list(tmp_path.glob("keyspread-checkpoint-*"))


def test_a_live_page_and_hidden_keys(spark, tmp_path, capfd, monkeypatch):
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)  # as in `run`, which captures otherwise
    out = tmp_path / "run.html"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    got = {}

    def read():
        """Read the page while the stream runs."""
        end = time.monotonic() + 120
        while time.monotonic() < end and not got.get("batches"):
            with suppress(OSError), urlopen(f"http://127.0.0.1:{free}/data.json", timeout=5) as answer:
                got.update(json.load(answer))
            time.sleep(0.05)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    arguments = ["--streaming", *DRIFT, "--rate", 500, "--batches", 3, "--hide-keys", "--json", "--top", 3]
    code = main(["run", *map(str, [*arguments, "--page", "--page-address", f"127.0.0.1:{free}", "--page-out", out])])
    said, noted = capfd.readouterr()
    reader.join(10)
    assert code == 0
    assert f"keyspread: note: live page: http://127.0.0.1:{free}/\n" in noted
    assert f"keyspread: note: the page is in {out}\n" in noted
    *lines, _ = [json.loads(line) for line in said.splitlines()]
    assert len(lines) == 3
    assert got["batches"] >= 1
    assert got["title"].startswith("look-ahead, 4 workers: ")
    keys = {hot["key"] for line in lines for hot in line["hottest"]}
    assert keys
    assert all(key.startswith("#") for key in keys)
    assert all(sum(line["loads_by_hash"]) == sum(line["loads"]) == 500 for line in lines)
    page = out.read_text(encoding="utf-8")
    assert any(key in page for key in keys)
    assert '"batches":3' in page
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", free))


def test_without_the_packages_of_the_page(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "starlette", None)
    code, _, noted = run("--streaming", "--page")
    assert code == 2
    assert noted == (
        "keyspread: error: --page needs starlette, which is not installed: pip install 'keyspread[page]'\n"
    )


def test_the_page_is_for_streams(run):
    for option in ("--page", "--hide-keys"):
        code, _, noted = run(option)
        assert (code, noted) == (2, f"keyspread: error: {option} is for --streaming only: leave it out\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--page-address", "0.0.0.0"], "--page-address has no effect without --page: add it, or leave"),
        (["--page-token", "a long token"], "--page-token has no effect without --page"),
        (["--page", "--page-address", "0.0.0.0:80"], "a page at 0.0.0.0 can be read by others: pass a token"),
        (["--page", "--page-address", "here:"], "--page-address must be HOST or HOST:PORT, such as 127.0.0.1:4050"),
        (["--page", "--page-address", ":70000"], "--page-address must be HOST or HOST:PORT"),
        (["--page", "--page-token", "short"], "the token of a page must have at least 8 characters, got 5"),
        (["--page-out", "."], "--page-out . is a folder: name a file"),
        (["--page-out", "no/where.html"], "--page-out no/where.html cannot be written: check the folder"),
        (["--rate", "0"], "--rate must be above 0, got 0"),
        (["--rate", "nan"], "rate must be a"),
        (["--trigger", "-1"], "--trigger must be above 0, got -1"),
        (["--seconds", "0"], "--seconds must be above 0, got 0"),
        (["--batches", "0"], "batches must be at least 1, got 0"),
        (["--workers", "0"], "workers must be at least 1, got 0"),
        (["--top", "-1"], "hottest must be at least 0, got -1"),
        (["--live", "--json"], "--live and --json show the same in two ways"),
        (["--messages", "5"], "--messages is for a run without --streaming, got 5: leave it out"),
        (["--strict"], "--strict is for a run without --streaming: leave it out"),
        (["--plan-out", "p"], "--plan-out is for a run without --streaming, got p"),
        (["--scheme", "planned"], "scheme planned needs all rows before it routes the first: use look-ahead"),
        (["--scheme", "magic"], "unknown scheme 'magic'"),
        (["--tolerance", "0.1"], "'tolerance' is for schemes such as d-choices; look-ahead takes threshold"),
        (["--threshold", "2"], "threshold is a share"),
        (["--input", "ct"], "--input ct has an end: with --streaming, use zipf, drift, files or kafka"),
        (["--input", "nowhere"], "nowhere: no such file or folder"),
        (["--input", "{file}"], "a.csv is a single file: with --streaming, name a folder or a pattern"),
        (["--input", "{folder}", "--rate", "5"], "--rate is for zipf, drift and kafka only, got 5"),
        (["--input", "{folder}", "--senders", "5"], "--senders is for zipf and drift only with --streaming"),
        (["--input", "{folder}", "--skew", "5"], "--skew is for zipf and drift only, got 5 with"),
        (["--input", "kafka"], "--input kafka needs --topic, the name of the topic"),
        (["--input", "kafka", "--topic", "t"], "--input kafka needs --brokers, such as --brokers localhost:9092"),
        (["--input", "kafka", "--topic", "t t", "--brokers", "a:1"], "topic must be the name of a Kafka topic"),
        (["--input", "kafka", "--topic", "t", "--brokers", "a"], "brokers must be host:port, or several with commas"),
        (["--input", "kafka", "--topic", "t", "--brokers", "{closed}"], "{closed}: no Kafka broker answers"),
        (["--input", "kafka", "--topic", "t", "--brokers", "a:1", "--format", "csv"], "--format is for files only"),
        (["--topic", "t"], "--topic is for --input kafka only, got 't' with zipf: leave it out"),
        (["--master", "sc://host"], "--streaming does not work with Spark Connect, got --master sc://host"),
        (["--checkpoint", "{file}"], "--checkpoint must be a folder, {file} is a file"),
        (["--checkpoint", "{foreign}"], "foreign belongs to a query of another program: choose another folder"),
        (["--checkpoint", "{before}", "--skew", "2"], "belongs to another run (skew was 1.4, got 2.0): use that, or"),
        (["--out", "{file}"], "is a file, but results are a folder: choose another name"),
        (["--out", "{foreign}"], "foreign holds 'offsets', which is not a batch: choose another folder"),
        (["--out", "{results}"], "holds batches of another run: choose another folder, or resume with its --check"),
        (["--out", "nowhere/out"], "there is no folder"),
        (["--out-format", "csv"], "--out-format csv has no effect without --out"),
        (["--aggregate", "m=median(key)"], "'median' cannot be merged from parts"),
    ],
)
def test_a_mistake_is_exit_code_2_and_one_line_before_spark_starts(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("keyspread.cli.spark_session.spark_session", None)
    for folder in ("folder", "foreign/offsets", "before/offsets", "results/batch=0"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("folder/a.csv", "a.csv"):
        (tmp_path / file).write_text("key\na\n")
    RunRecord("before").begin({"law_keys": 10_000, "skew": 1.4, "stream_seed": 0, "stream": "zipf"})
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        names = {"closed": f"127.0.0.1:{closed.getsockname()[1]}", "file": "a.csv"}
        names |= {name: name for name in ("folder", "foreign", "results", "before")}
        code = main(["run", "--streaming", *(argument.format(**names) for argument in arguments)])
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("keyspread: error: ")
    assert message.format(**names) in err


@pytest.mark.parametrize("option", [["--rate", "5"], ["--checkpoint", "x"], ["--batches", "1"], ["--trigger", "1"]])
def test_options_of_a_stream_need_streaming(capsys, option):
    assert main(["run", *option]) == 2
    assert f"{option[0]} is for --streaming only, got {option[1]}" in capsys.readouterr().err


def test_a_batch_that_is_recorded_twice_counts_once(tmp_path):
    record = RunRecord(str(tmp_path))
    assert not record.resumes({"key": ["a"]})
    record.begin({"key": ["a"]})
    assert not record.resumes({"key": ["b"]})  # no batch was done yet
    (tmp_path / "offsets").mkdir()
    assert record.rows_so_far() == 0
    assert [record.add(batch, rows) for batch, rows in [(0, 5), (1, 7), (1, 7), (2, 1)]] == [5, 12, 12, 13]
    again = RunRecord(f"file://{tmp_path}")
    assert again.resumes({"key": ["a"]})
    assert again.rows_so_far() == 13
    assert again.add(2, 4) == 16
    (tmp_path / "keyspread" / "settings.json").write_text("{")
    with pytest.raises(InputError, match=r"settings.json cannot be read .*: choose another folder"):
        again.resumes({"key": ["a"]})
    assert not [one.name for one in (tmp_path / "keyspread").iterdir() if one.name.startswith(".")]


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_requests_a_stop_and_the_second_acts_as_before(number):
    got = []
    before = signal.signal(number, lambda *_: got.append("second"))
    try:
        with interruption.stop_request() as requested:
            os.kill(os.getpid(), number)
            assert requested.wait(5)
            assert got == []
            os.kill(os.getpid(), number)
            assert got == ["second"]
    finally:
        signal.signal(number, before)
