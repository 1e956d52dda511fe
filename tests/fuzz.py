"""Fuzz the readers, the diagnosis of logs and the command line: one clear line or a right answer, never a trace.

    ./dev python tests/fuzz.py --inputs 100000 --seed 0
    ./dev python tests/fuzz.py --replay csv:1234 --seed 0

Each input is a valid file, log or command line that is then mutated. Where the mutation leaves it valid, the
answer is compared with that of plain Python. An input that takes more processor time than `--seconds` counts as a hang.
Input i of a target depends on the seed, the target and i alone, so every failure can be replayed. Spark is not started:
a command that would start it is right.
"""

import argparse
import contextlib
import csv
import gzip
import io
import json
import os
import random
import shlex
import signal
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import keyspread as ks
from keyspread.diagnosis import Diagnosis, diagnose_log
from keyspread.errors import KeyspreadError
from keyspread.streams import read_stream
from made_logs import CODECS, EVEN, HOT, MadeLog, adaptive, exchange, join_plan, node

Rows = list[tuple[int, str]]
"""The time and the key of every message."""


class Hang(BaseException):
    """An input took too long; no `except Exception` stops it."""


class WrongAnswerError(Exception):
    """An answer differs from that of plain Python, or an error is not one line."""


class SparkStartsError(KeyspreadError):
    """The command was accepted, and Spark would start now."""


@dataclass(frozen=True)
class Input:
    """One input of a target: what to pass, and the right answer if it is known."""

    content: Any
    expected: Any = None

    def __str__(self) -> str:
        """Show it so that it can be typed again."""
        return shlex.join(self.content) if isinstance(self.content, list) else repr(self.content)


# ------------------------------------------------------------------------------------------------------------ mutations

ODD = [
    "",
    "\0",
    "é",
    "\u2028",
    '"',
    "'",
    "\t",
    ",",
    "\\",
    "0",
    "-1",
    "NaN",
    "inf",
    "1e999",
    "9" * 40,
    "null",
    "true",
    "{}",
]
BOM = b"\xef\xbb\xbf"

LONGEST_LINE = 1_000_000  # bytes: repeated lines would grow to gigabytes


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Return the bytes with one to three faults."""
    for _ in range(rng.randint(1, 3)):
        at, size = rng.randrange(len(data) + 1), rng.randint(1, 20)
        lines = data.split(b"\n")
        line = rng.randrange(len(lines))
        fault = rng.randrange(13)
        if fault == 0:
            data = data[:at]
        elif fault == 1 and data:
            flipped = bytearray(data)
            flipped[at % len(data)] ^= 1 << rng.randrange(8)
            data = bytes(flipped)
        elif fault == 2:
            data = data[:at] + rng.randbytes(size) + data[at:]
        elif fault == 3:
            data = data[:at] + data[at + size :]
        elif fault == 4:
            data = data[:at] + rng.choice(ODD).encode() + data[at:]
        elif fault == 5:
            data = BOM + data
        elif fault == 6:
            data = data[:at] + b"\0" * size + data[at:]
        elif fault == 7:
            lines[line] = (lines[line] * rng.choice([0, 2, 1000]))[:LONGEST_LINE]
            data = b"\n".join(lines)
        elif fault == 8:
            data = data.decode("utf-8", "replace").encode(rng.choice(["utf-16", "latin-1", "utf-32"]), "replace")
        elif fault == 9:
            fields = lines[line].split(rng.choice([b"\t", b",", b" ", b":"]))
            rng.shuffle(fields)
            lines[line] = rng.choice([b"\t", b",", b" "]).join(fields[rng.randrange(2) :])
            data = b"\n".join(lines)
        elif fault == 10:
            rng.shuffle(lines)
            data = b"\n".join(lines)
        elif fault == 11:
            data = data[:at] + b"x" * 100_000 + data[at:]
        else:
            data = data * rng.choice([0, 2])
    return data


def still_valid(rng: random.Random, data: bytes) -> bytes:
    """Return the same lines with other line ends, or without the last line end, or with empty lines."""
    if rng.random() < 0.3:
        data = data.replace(b"\n", b"\r\n")
    if rng.random() < 0.3:
        data = data.rstrip(b"\r\n")
    elif rng.random() < 0.3:
        data += b"\n\n"
    return data


# -------------------------------------------------------------------------------------------------------------- readers

LETTERS = "abcXYZ019 .-_/:$#@é’漢"


def rows(rng: random.Random, letters: str = LETTERS) -> Rows:
    """Return a few messages, times ascending."""
    keys = ["".join(rng.choices(letters, k=rng.randint(1, 8))) for _ in range(rng.randint(1, 6))]
    return [(1000 + i, rng.choice(keys)) for i in range(rng.randint(1, 30))]


def file_input(rng: random.Random, data: bytes, expected: list[str], *, text: bool = True) -> Input:
    """Return the file, compressed or not: a quarter of them valid, with the keys that plain Python finds."""
    if rng.random() < 0.25:
        data = still_valid(rng, data) if text else data
        return Input(gzip.compress(data, 1, mtime=0) if rng.random() < 0.3 else data, expected)
    if rng.random() < 0.3:
        return Input(mutated(rng, gzip.compress(mutated(rng, data) if rng.random() < 0.5 else data, 1, mtime=0)))
    return Input(mutated(rng, data))


def tsv(rng: random.Random) -> Input:
    messages = rows(rng)
    return file_input(rng, "".join(f"{t}\t{key}\n" for t, key in messages).encode(), [key for _, key in messages])


def csv_file(rng: random.Random) -> Input:
    messages = rows(rng, LETTERS + ',"')
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["time", "key"])
    writer.writerows(messages)
    return file_input(rng, out.getvalue().encode(), [key for _, key in messages])


def json_file(rng: random.Random) -> Input:
    messages = rows(rng, LETTERS + '"\\\n\t')
    text = "".join(json.dumps({"time": t, "key": key}, ensure_ascii=rng.random() < 0.5) + "\n" for t, key in messages)
    return file_input(rng, text.encode(), [key for _, key in messages])


def parquet(rng: random.Random) -> Input:
    messages = rows(rng)
    out = io.BytesIO()
    table = pa.table({"time": [t for t, _ in messages], "key": [key for _, key in messages]})
    pq.write_table(table, out, compression=rng.choice(["snappy", "zstd", "none"]))
    return file_input(rng, out.getvalue(), [key for _, key in messages], text=False)


def reader(format: str, **options: Any) -> Callable[[Input, Path], None]:
    """Return the check of a reader: the right keys, or one line."""

    def check(given: Input, folder: Path) -> None:
        path = folder / "stream.bin"
        path.write_bytes(given.content)
        found = read_stream(path, format=format, **options)
        if given.expected is not None:
            texts = found.key_texts(found.hashes.tolist())
            keys = [texts[key] for key in found.hashes.tolist()]
            if keys != given.expected or found.malformed.count:
                raise WrongAnswerError(
                    f"read {keys}, {found.malformed.count} malformed; plain Python reads {given.expected}"
                )

    return check


# -------------------------------------------------------------------------------------------------------- stored state


def event_log(rng: random.Random) -> Input:
    """Return an event log of Spark with a join, a stream and a scan, in any codec: cut, or with a few faults."""
    log = MadeLog(version=rng.choice(["2.4.8", "3.1.2", "4.3.0"]), slots=rng.choice([1, 4, 8]))
    log.query(adaptive(join_plan(rng.choice(["Inner", "FullOuter", "LeftOuter"]))))
    log.stage(rng.choice([HOT, EVEN]), other_rows=[10] * 16)
    log.query(node("StateStoreSave", None, exchange("customer#1L", number=3)), 1)
    log.stage([rng.randrange(9999) for _ in range(rng.randint(1, 20))], execution=1)
    log.stage([0] * 3, input_rows=[rng.randrange(9999) for _ in range(3)], execution=None)
    shared = exchange(
        "upper(name#3), _groupingexpression#5", node("Project", "Project [(a#1 % 7) AS _groupingexpression#5]")
    )
    again = node("ReusedExchange", "ReusedExchange [customer#1L], " + shared["simpleString"])
    cache = node("InMemoryTableScan", None, shared, number_of_output_rows=60)
    start = {"time_to_start_Python_workers": 61, "time_to_initialize_Python_workers": 62}
    log.query(node("Union", None, node("FlatMapGroupsInPandas", None, again, **start), cache), 2)
    log.written(sum(HOT), 9999)
    more = {number: [rng.randrange(9999) for _ in range(16)] for number in (60, 61, 62)}
    log.stage(HOT, execution=2, more=more, running=rng.choice([(), (11,), range(8, 16), range(16)]))
    data = log.end().data
    codec = rng.choice(list(CODECS))
    if rng.random() < 0.1:
        return Input(CODECS[codec](data), [finding.to_dict() for finding in _diagnosed(data).findings])
    if rng.random() < 0.5:  # before compression: broken events
        return Input(CODECS[codec](mutated(rng, data)))
    return Input(mutated(rng, CODECS[codec](data)))


def check_log(given: Input, folder: Path) -> None:
    path = folder / "log"
    path.write_bytes(given.content)
    (diagnosis,) = diagnose_log(path)
    json.dumps(diagnosis.to_dict())
    diagnosis.to_html()
    str(diagnosis)
    if given.expected is not None and [one.to_dict() for one in diagnosis.findings] != given.expected:
        raise WrongAnswerError("the findings depend on the codec")


def _diagnosed(data: bytes) -> Diagnosis:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        (diagnosis,) = diagnose_log(file.name)
    return diagnosis


# -------------------------------------------------------------------------------------------------------- command lines

VALUES = ["", "\0", "é", "x" * 5000, *shlex.split("""
    0 1 2 7 -1 1e3 1e9 NaN inf 1e999 0.5 auto key dc planned zipf drift wp kafka nowhere.tsv stream.tsv - -- csv json
    tsv a=sum(b) / .
""")]  # fmt: skip
OPTIONS = shlex.split("""
    input data seed skew keys every hottest redrawn format key time workers senders partitions threshold half-life
    windows tolerance counters choices scheme top size seeds schemes skews brokers option scheme-option plot checkpoint
    page batches master executors repetitions milliseconds no-such-option
""")
FLAGS = ["--json", "--strict", "--streaming", "--help", "-h", "--verbose"]
COMMANDS = [
    words.split()
    for words in (
        *["simulate"] * 4,
        *["run"] * 3,
        "compare",
        "datasets describe",
        "datasets list",
        "datasets",
        "run --streaming",
        "bench deployment",
        "reproduce",
        "bench",
        "nothing",
        "",
    )
]
SMALL = ["--messages", "200"]


def command_line(rng: random.Random) -> Input:
    command = list(rng.choice(COMMANDS))
    words = command + (SMALL if command and command[0] in ("simulate", "compare", "run") else [])
    if command == ["datasets", "describe"]:
        words += SMALL
    if rng.random() < 0.2 and command == ["simulate"]:
        workers, seed = rng.randint(1, 9), rng.randrange(100)
        scheme = rng.choice(["key", "d-choices", "planned"])
        words += ["--workers", str(workers), "--seed", str(seed), "--scheme", scheme, "--keys", "50", "--json"]
        return Input(words, (workers, seed, scheme))
    for _ in range(rng.randint(0, 5)):
        name = rng.choice(OPTIONS)
        words += rng.choice(
            [[f"--{name}", rng.choice(VALUES)], [f"--{name}={rng.choice(VALUES)}"], [f"--{name}"], [rng.choice(VALUES)]]
        )
    words += rng.sample(FLAGS, rng.choice([0, 0, 1, 2]))
    if rng.random() < 0.1:
        rng.shuffle(words)
    return Input(words)


def check_command(given: Input, folder: Path) -> None:
    from keyspread.cli import main
    from keyspread.cli.common import session as spark_session

    @contextlib.contextmanager
    def refuse(*_: Any, **__: Any) -> Iterator[None]:
        raise SparkStartsError("Spark would start")
        yield

    out, err = io.StringIO(), io.StringIO()
    real, spark_session.spark_session = spark_session.spark_session, refuse  # type: ignore[assignment]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(given.content)
    finally:
        spark_session.spark_session = real
    lines = err.getvalue().splitlines()
    if code not in (0, 2) or (code == 2 and not (lines and lines[-1].startswith("keyspread: error: "))):
        raise WrongAnswerError(f"exit code {code}, {len(lines)} lines: {err.getvalue()[-300:]}")
    if code == 2 and len([line for line in lines if not line.startswith("keyspread: ")]) > 0:
        raise WrongAnswerError(f"{len(lines)} lines for a mistake: {err.getvalue()[:300]}")
    if given.expected is not None:
        workers, seed, scheme = given.expected
        said = json.loads(out.getvalue())
        loads = ks.simulate(ks.streams.zipf(1.4, 50, 200, seed), scheme, workers, seed=seed).loads.tolist()
        if said["loads"] != loads:
            raise WrongAnswerError(f"the command says {said['loads']}, simulate {loads}")


# - running


@dataclass(frozen=True)
class Target:
    """Something to fuzz: how to make an input, and how to try it."""

    make: Callable[[random.Random], Input]
    check: Callable[[Input, Path], None]
    share: int
    """Its part of all inputs, in percent."""


TARGETS = {
    "tsv": Target(tsv, reader("tsv"), 20),
    "csv": Target(csv_file, reader("csv", key="key", time="time"), 20),
    "json": Target(json_file, reader("json", key="key", time="time"), 20),
    "parquet": Target(parquet, reader("parquet", key="key", time="time"), 20),
    "log": Target(event_log, check_log, 10),
    "command": Target(command_line, check_command, 10),
}


def one_input(target: str, number: int, seed: int) -> Input:
    """Return input `number` of a target: the same for the same seed."""
    return TARGETS[target].make(random.Random(zlib.crc32(f"{seed} {target} {number}".encode())))


def try_input(target: str, given: Input, seconds: float) -> tuple[str, str]:
    """Return what happened (answered, refused, or a failure) and why."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name, working_in(name):
        limit(seconds)
        try:
            TARGETS[target].check(given, Path(name))
            return "answered", ""
        except KeyspreadError as error:
            text = str(error)
            return ("refused", text) if text.strip() and "\n" not in text else ("FAILED", f"not one line: {text!r}")
        except Hang:
            return "FAILED", f"no answer after {seconds:g} seconds of processor time"
        except BaseException as error:
            where = "".join(traceback.format_tb(error.__traceback__)[-1:]).strip()
            return "FAILED", f"{type(error).__name__}: {error} ({where})"
        finally:
            limit(0)


def limit(seconds: float) -> None:
    """Raise Hang after so much processor time (other work does not use it up), or ten times as much by the clock."""
    for number, timer, most in (
        (signal.SIGPROF, signal.ITIMER_PROF, seconds),
        (signal.SIGALRM, signal.ITIMER_REAL, 10 * seconds),
    ):
        signal.signal(number, _hang)
        signal.setitimer(timer, most)


@contextlib.contextmanager
def working_in(folder: str) -> Iterator[None]:
    """Change into a folder, so that commands write nothing elsewhere."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _hang(*_: object) -> None:
    raise Hang


def fuzz(target: str, inputs: int, seed: int, seconds: float) -> dict[str, Any]:
    """Try inputs 0, 1, … of a target; return the counts and every failure."""
    counts: dict[str, Any] = {"answered": 0, "refused": 0, "right": 0, "failures": []}
    for number in range(inputs):
        given = one_input(target, number, seed)
        result, why = try_input(target, given, seconds)
        if result == "refused" and given.expected is not None:
            result, why = "FAILED", f"refused a valid input: {why}"
        if result == "FAILED":
            counts["failures"].append((number, given, why))
        else:
            counts[result] += 1
            counts["right"] += given.expected is not None
    return counts


def main() -> int:
    """Fuzz every target and print the counts and the failures; exit with 1 if there is a failure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=10_000, help="number of inputs in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20, help="processor time per input at most")
    parser.add_argument("--target", choices=TARGETS, help="only this one")
    parser.add_argument("--replay", metavar="TARGET:NUMBER", help="try one input again and print it")
    options = parser.parse_args()
    if options.replay:
        target, _, number = options.replay.partition(":")
        given = one_input(target, int(number), options.seed)
        print(given, "\n", *try_input(target, given, options.seconds))
        return 0
    failed = total = 0
    print(f"{'target':10} {'inputs':>7} {'answered':>8} {'refused':>8} {'compared':>8} {'failed':>6} {'seconds':>7}")
    for target in [options.target] if options.target else TARGETS:
        inputs = options.inputs if options.target else options.inputs * TARGETS[target].share // 100
        begin = time.perf_counter()
        counts = fuzz(target, inputs, options.seed, options.seconds)
        failures = counts.pop("failures")
        numbers = "".join(f"{count:9,}" for count in counts.values())
        seconds = time.perf_counter() - begin
        print(f"{target:10} {inputs:7,}{numbers} {len(failures):6,} {seconds:7.0f}", flush=True)
        for number, given, why in failures[:20]:
            print(f"    --replay {target}:{number}: {why[:300]}\n        {str(given)[:200]}", flush=True)
        failed, total = failed + len(failures), total + inputs
    print(f"{total:,} inputs, {failed:,} failed, seed {options.seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
