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

from keyspread.cli import main
from keyspread.cli.common import session as interruption
from keyspread.errors import InputError
from keyspread.run.stream import check_same_run
from keyspread.streams import DriftingZipfStream

DRIFT = ["--input", "drift", "--keys", "300", "--skew", "1.3", "--option", "every=700", "--option", "seed=3"]
DRIFT += ["--workers", "4"]


@pytest.fixture
def run(spark, capsys):
    """Run on the session of the tests: (exit code, stdout, stderr)."""

    def run(*arguments):
        code = main(["run", "--streaming", *(str(argument) for argument in arguments)])
        return code, *capsys.readouterr()

    logging.disable(logging.CRITICAL)  # PySpark's logger writes to pytest's stream, not to the descriptor that is held
    yield run
    logging.disable(logging.NOTSET)


def interrupt_at(folder):
    """Send Ctrl-C when this folder of results is there."""

    def press():
        end = time.monotonic() + 300
        while not folder.exists() and time.monotonic() < end:
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_an_interrupted_stream_resumes_without_losing_or_repeating_a_row(run, spark, tmp_path):
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out"
    same = [*DRIFT, "--checkpoint", checkpoint, "--out", out]
    fast = ["--option", "rate=1000", "--option", "senders=2"]
    code, said, noted = run(*same, *fast, "--batches", 2, "--scheme", "d-choices", "--json")
    assert code == 0
    assert noted == f"keyspread: note: run the same command again to resume from --checkpoint {checkpoint}\n"
    *lines, last = [json.loads(line) for line in said.splitlines()]
    assert {line["type"] for line in lines} == {"batch"}
    assert {line["format"] for line in (*lines, last)} == {1}
    assert [(line["batch"], line["rows"]) for line in lines] == [(0, 1000), (1, 1000)]
    assert all(sum(line["loads"]) == 1000 and len(line["hottest"]) == 10 for line in lines)
    assert all(2 <= line["choices"] <= 4 for line in lines if line["head"] is not None)
    assert (last["type"], last["input"]) == ("total", "drift")
    expected = {"source": "drift", "law_keys": 300, "scheme": "d-choices", "workers": 4, "senders": 2}
    expected |= {"batches": 2, "rows": 2000, "out": str(out)}
    assert {name: last["total"][name] for name in expected} == expected

    # At another rate, with other senders, another scheme and other workers: results are merged by key.
    interrupt_at(out / "batch=2")
    code, said, _ = run(*same, "--option", "rate=700", "--workers", 3)
    assert code == 0
    *table, total, _ = said.splitlines()
    batches = [line.split() for line in table[2:]]
    assert [batch[0] for batch in batches] == [str(2 + i) for i in range(len(batches))]
    # The first batch may have been planned at the old rate, before the first run stopped.
    assert [batch[1] for batch in batches[1:]] == ["700"] * (len(batches) - 1)
    rows = sum(int(batch[1].replace(",", "")) for batch in batches)
    assert f"{rows:,} rows in " in total

    written = spark.read.parquet(str(out)).collect()
    found = Counter()
    for row in written:
        found[row["key"]] += row["count"]
    law = DriftingZipfStream(1.3, 300, 2000 + rows, every=700, hottest=100, seed=3).law()
    assert found == Counter(law.draw(0, 2000 + rows).tolist())
    assert sorted({row["batch"] for row in written}) == list(range(2 + len(batches)))


def test_a_folder_that_grows_and_a_checkpoint_of_another_run(run, spark, tmp_path):
    folder, checkpoint = tmp_path / "clicks", tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "1.csv").write_text("user,spent\n" + "anna,1\n" * 30 + "007,2\n" * 3)
    same = ["--input", folder, "--workers", 2, "--checkpoint", checkpoint, "--batches", 1]
    code, said, _ = run(*same, "--key", "user")
    assert code == 0
    assert said.splitlines()[0] == "look-ahead, 2 workers: clicks"  # no terminal, so no picture
    assert said.splitlines()[2].split()[:2] == ["0", "33"]
    (folder / "2.csv").write_text("user,spent\nanna,5\n")
    code, said, _ = run(*same, "--key", "user")
    assert code == 0
    assert "1 batch, 1 row in " in said
    code, _, noted = run(*same, "--key", "spent")
    assert (code, noted.count("\n")) == (2, 1)
    assert """belongs to another run (key was ["user"], got ["spent"]): use that, or another folder""" in noted


def test_a_live_page(spark, tmp_path, capfd, monkeypatch):
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)  # as in `run`, which captures otherwise
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
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
    arguments = ["--streaming", *DRIFT, "--option", "rate=500", "--batches", "2", "--json"]
    code = main(["run", *arguments, "--page", str(free), "--plot", str(out)])
    said, noted = capfd.readouterr()
    reader.join(10)
    assert code == 0
    assert f"keyspread: note: live page: http://127.0.0.1:{free}/\n" in noted
    assert f"keyspread: note: the page is in {out}\n" in noted
    assert "this run cannot be resumed: it has no --checkpoint folder" in noted
    assert not list(tmp_path.glob("keyspread-checkpoint-*"))
    *lines, _ = [json.loads(line) for line in said.splitlines()]
    assert got["batches"] >= 1
    assert got["title"].startswith("look-ahead, 4 workers: ")
    assert all(sum(line["loads_by_hash"]) == sum(line["loads"]) == 500 for line in lines)
    assert '"batches":2' in out.read_text(encoding="utf-8").replace(": ", ":")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", free))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--page", "here"], "--page must be PORT or HOST:PORT, such as 4050, got 'here'"),
        (["--plot", "a.svg"], "--plot must end in .html here, got a.svg"),
        (["--work", "none"], "--work is for a run without --streaming, got none: leave it out"),
        (["--messages", "5"], "--messages is for a run without --streaming: use --batches"),
        (["--scheme", "planned"], "scheme planned needs all rows before it routes the first: use look-ahead"),
        (["--input", "ct"], "--input ct has an end: with --streaming, use zipf, drift, a folder or a topic"),
        (["--input", "{file}"], "a.csv is a single file: with --streaming, name a folder or a pattern"),
        (["--input", "t", "--format", "kafka"], "a Kafka topic needs its brokers: --option kafka.bootstrap.servers="),
        (["--master", "sc://host"], "--streaming does not work with Spark Connect, got --master sc://host"),
        (["--checkpoint", "{file}"], "--checkpoint must be a folder, {file} is a file"),
        (["--checkpoint", "{foreign}"], "foreign belongs to a query of another program: choose another folder"),
        (["--out", "{file}"], "is a file, but results are a folder: choose another name"),
        (["--out", "results/"], "--out results/ is not empty: choose another folder, or resume with its --checkpoint"),
        (["--out", "table"], "--out of a stream is a folder for its batches, got a table 'table'"),
    ],
)
def test_a_mistake_is_exit_code_2_and_one_line_before_spark_starts(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("keyspread.cli.common.session.spark_session", None)
    for folder in ("folder", "foreign/offsets", "results/batch=0"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "a.csv").write_text("key\na\n")
    names = {"file": "a.csv", "folder": "folder", "foreign": "foreign"}
    code = main(["run", "--streaming", *(argument.format(**names) for argument in arguments)])
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("keyspread: error: ")
    assert message.format(**names) in err


def test_without_the_packages_of_the_page(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "starlette", None)
    code, _, noted = run("--page", "4050")
    assert code == 2
    assert noted == (
        "keyspread: error: --page needs starlette, which is not installed: pip install 'keyspread[page]'\n"
    )


def test_a_checkpoint_belongs_to_one_stream(tmp_path):
    assert not check_same_run(str(tmp_path), {"key": ["a"]})
    assert not check_same_run(str(tmp_path), {"key": ["b"]})  # no batch was done yet
    (tmp_path / "offsets").mkdir()
    assert check_same_run(f"file://{tmp_path}", {"key": ["b"]})
    with pytest.raises(InputError, match=r'belongs to another run \(key was \["b"\], got \["a"\]\)'):
        check_same_run(str(tmp_path), {"key": ["a"]})
    (tmp_path / "keyspread" / "settings.json").write_text("{")
    with pytest.raises(InputError, match=r"cannot be used .*: use a folder on this machine"):
        check_same_run(str(tmp_path), {"key": ["b"]})


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
