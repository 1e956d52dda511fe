"""Event logs made for tests: the events that Spark writes, with only the fields that matter.

A stage is given by its rows per task. Each task takes a second plus `per_row` seconds per row, on `slots` slots, so
that what skew costs is known exactly.
"""

import gzip
import heapq
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from keyspread.diagnosis import Diagnosis, Finding, diagnose_log

SQL = "org.apache.spark.sql.execution.ui."
BEGIN = 1_700_000_000_000


def node(name: str, text: str | None = None, *children: dict[str, Any], **metrics: int) -> dict[str, Any]:
    """Return an operator of a plan; `records_read=7` is the accumulator 7 of the metric 'records read'."""
    named = [
        {"name": metric.replace("_", " "), "accumulatorId": number, "metricType": "sum"}
        for metric, number in metrics.items()
    ]
    return {
        "nodeName": name,
        "simpleString": text or name,
        "children": list(children),
        "metadata": {},
        "metrics": named,
    }


def exchange(keys: str, *children: dict[str, Any], number: int = 1, partitions: int = 16) -> dict[str, Any]:
    """Return a hash exchange whose accumulators are 10·number (rows), +1 (local bytes) and +2 to +4 (written)."""
    text = f"Exchange hashpartitioning({keys}, {partitions}), ENSURE_REQUIREMENTS, [plan_id={number}]"
    names = ("records_read", "local_bytes_read", "data_size", "shuffle_records_written", "shuffle_bytes_written")
    metrics = {name: 10 * number + place for place, name in enumerate(names)}
    return node("Exchange", text, *children, **metrics)


def join_plan(how: str = "Inner", keys: str = "customer#1L", name: str = "SortMergeJoin") -> dict[str, Any]:
    """Return a sort-merge join; its output rows are the accumulator 5, the sides the exchanges 1 and 2."""
    text = f"{name} [{keys}], [id#2L], {how}"
    scans = [node("Scan parquet ", f"FileScan parquet [{columns}] Batched: true") for columns in (keys, "id#2L")]
    sides = (exchange(keys, scans[0]), exchange("id#2L", scans[1], number=2))
    return node(name, text, *(node("Sort", None, side) for side in sides), number_of_output_rows=5)


def adaptive(plan: dict[str, Any]) -> dict[str, Any]:
    """Return the plan as adaptive execution shows it."""
    return node("AdaptiveSparkPlan", "AdaptiveSparkPlan isFinalPlan=true", plan)


@dataclass
class MadeLog:
    """A log in the making. Methods add events in the order in which Spark writes them."""

    version: str = "4.0.0"
    name: str = "made"
    slots: int = 8
    settings: dict[str, str] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    clock: int = BEGIN
    stages: int = 0

    def __post_init__(self) -> None:
        """Write what every log begins with."""
        self.add("SparkListenerLogStart", **{"Spark Version": self.version})
        info = {"Host": "h", "Total Cores": self.slots}
        self.add("SparkListenerExecutorAdded", **{"Timestamp": BEGIN, "Executor ID": "1", "Executor Info": info})
        self.add("SparkListenerEnvironmentUpdate", **{"Spark Properties": self.settings})
        start = {"App Name": self.name, "App ID": "app-1", "Timestamp": BEGIN}
        self.add("SparkListenerApplicationStart", **start)

    def add(self, event: str, **content: Any) -> None:
        """Add one event."""
        self.events.append({"Event": event, **content})

    def query(self, plan: dict[str, Any], execution: int = 0, description: str = "a query", **settings: str) -> None:
        """Add the start of a query."""
        configs = {name.replace("_", "."): value for name, value in settings.items()}
        content = {"executionId": execution, "description": description, "details": "", "sparkPlanInfo": plan}
        self.add(f"{SQL}SparkListenerSQLExecutionStart", **content, modifiedConfigs=configs)

    def stage(
        self,
        rows: Sequence[int],
        *,
        other_rows: Sequence[int] = (),
        output_rows: Sequence[int] = (),
        input_rows: Sequence[int] = (),
        seconds: Sequence[float] = (),
        per_row: float = 0.001,
        bytes_per_row: int = 100,
        execution: int | None = 0,
        attempt: int = 0,
        name: str = "collect at job.py:7",
        running: Sequence[int] = (),
        more: Mapping[int, Sequence[int]] | None = None,
    ) -> int:
        """Add a stage that reads the exchange 1 (and 2) with these rows per task; return its number.

        The tasks `running` start and do not end, and neither does the stage. `more` are further accumulators: what
        each task added to them.
        """
        number = self.stages - (1 if attempt else 0)
        properties = {} if execution is None else {"spark.sql.execution.id": str(execution)}
        info = {"Stage ID": number, "Stage Attempt ID": attempt, "Stage Name": name, "Number of Tasks": len(rows)}
        if not attempt:
            self.stages += 1
            self.add("SparkListenerJobStart", **{"Job ID": number, "Stage IDs": [number], "Properties": properties})
        self.add("SparkListenerStageSubmitted", **{"Stage Info": info, "Properties": properties})
        free = [self.clock] * self.slots
        tasks = []
        for index, row_count in enumerate(rows):
            launch = heapq.heappop(free)
            long = seconds[index] if seconds else 1 + per_row * row_count
            finish = launch + round(1000 * long)
            heapq.heappush(free, finish)
            measured = {10: row_count, 11: bytes_per_row * row_count}
            if other_rows:
                measured |= {20: other_rows[index], 21: bytes_per_row * other_rows[index]}
            if output_rows:
                measured |= {5: output_rows[index]}
            measured |= {number: values[index] for number, values in (more or {}).items()}
            shuffled = row_count + (other_rows[index] if other_rows else 0)
            read = input_rows[index] if input_rows else 0
            metrics = {"shuffle": (shuffled, bytes_per_row * shuffled), "input": (read, 100 * read)}
            self.add("SparkListenerTaskStart", **self.task_start(number, attempt, index, launch))
            if index not in running:
                tasks.append((finish, self.task(number, attempt, index, launch, finish, measured, metrics)))
        for _, event in sorted(tasks, key=lambda one: one[0]):
            self.events.append(event)
        self.clock = max((finish for finish, _ in tasks), default=self.clock)
        if running:
            return number
        self.add("SparkListenerStageCompleted", **{"Stage Info": {**info, "Completion Time": self.clock}})
        return number

    def written(self, rows: int, size: int, number: int = 1) -> None:
        """Add the end of a stage that wrote these rows and bytes into an exchange."""
        found = [{"ID": 10 * number + 3, "Value": rows}, {"ID": 10 * number + 4, "Value": size}]
        info = {"Stage ID": 900 + number, "Stage Name": "map", "Accumulables": found, "Completion Time": self.clock}
        self.add("SparkListenerStageCompleted", **{"Stage Info": info})

    @staticmethod
    def task_start(stage: int, attempt: int, index: int, launch: int) -> dict[str, Any]:
        """Return the start of one task."""
        info = {"Task ID": 1000 * stage + index, "Index": index, "Launch Time": launch, "Executor ID": "1"}
        return {"Stage ID": stage, "Stage Attempt ID": attempt, "Task Info": info}

    @staticmethod
    def task(
        stage: int,
        attempt: int,
        index: int,
        launch: int,
        finish: int,
        measured: dict[int, int],
        metrics: dict[str, tuple[int, int]],
        *,
        reason: str = "Success",
        speculative: bool = False,
    ) -> dict[str, Any]:
        """Return the end of one task."""
        rows, size = metrics.get("shuffle", (0, 0))
        read, read_bytes = metrics.get("input", (0, 0))
        return {
            "Event": "SparkListenerTaskEnd",
            "Stage ID": stage,
            "Stage Attempt ID": attempt,
            "Task End Reason": {"Reason": reason},
            "Task Info": {
                "Task ID": 1000 * stage + index,
                "Index": index,
                "Launch Time": launch,
                "Finish Time": finish,
                "Executor ID": "1",
                "Speculative": speculative,
                "Failed": reason not in ("Success", "TaskKilled"),
                "Killed": reason == "TaskKilled",
                "Accumulables": [{"ID": id, "Name": "m", "Update": str(value)} for id, value in measured.items()],
            },
            "Task Metrics": {
                "Shuffle Read Metrics": {"Total Records Read": rows, "Local Bytes Read": size, "Remote Bytes Read": 0},
                "Input Metrics": {"Records Read": read, "Bytes Read": read_bytes},
            },
        }

    def end(self) -> "MadeLog":
        """Add the end of the application and return the log."""
        self.add("SparkListenerApplicationEnd", Timestamp=self.clock)
        return self

    @property
    def data(self) -> bytes:
        """Return the log as Spark writes it, without compression."""
        return b"".join(
            json.dumps(one, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" for one in self.events
        )

    def write(self, folder: Path, name: str = "log") -> Path:
        """Write the log into a folder and return its path."""
        path = folder / name
        path.write_bytes(self.data)
        return path


HOT = [4000 if task == 11 else 250 for task in range(16)]
"""Rows of 16 tasks on 8 slots: even, all take 1.48 s in 2 waves; so skewed, the hot one takes 5 s."""
EVEN = [484] * 16


def skewed_log(**options: Any) -> MadeLog:
    """Return a log with one join by `customer` that is skewed."""
    log = MadeLog(**options)
    log.query(adaptive(join_plan()))
    log.stage(HOT, other_rows=[10] * 16)
    return log.end()


def diagnose(log: MadeLog, folder: Path) -> Diagnosis:
    """Return the diagnosis of a log that ends here."""
    (diagnosis,) = diagnose_log(log.end().write(folder))
    return diagnosis


def skew_of(
    plan: dict[str, Any],
    folder: Path,
    rows: Sequence[int] = HOT,
    *,
    settings: dict[str, str] | None = None,
    **stage: Any,
) -> tuple[Finding, ...]:
    """Return the findings of key skew of a log with one query and one stage."""
    log = MadeLog(version=stage.pop("version", "4.0.0"), settings=settings or {})
    log.query(plan)
    log.stage(rows, **stage)
    return diagnose(log, folder).skew


def over(name: str, text: str | None = None, *above: str) -> dict[str, Any]:
    """Return a plan in which an operator, and others above it, read an exchange by customer."""
    plan = node(name, text, exchange("customer#1L"))
    for operator in above:
        plan = node(operator, None, plan)
    return plan


def join_by(left: str, right: str, rest: str = "") -> dict[str, Any]:
    """Return a join by these keys, with a further condition or the side that is built."""
    return {**join_plan(), "simpleString": f"SortMergeJoin [{left}], [{right}], Inner{rest}"}


# ----------------------------------------------------------------------------------------------------- Spark's framings


def _blocks(data: bytes, size: int) -> Iterable[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def lz4(data: bytes, size: int = 32_768) -> bytes:
    """Compress as Spark's lz4 does: blocks with a header each, and an empty one at the end."""
    out, codec = b"", pa.Codec("lz4_raw")
    for place, block in enumerate(_blocks(data, size)):
        packed = block if place % 3 == 2 else codec.compress(block, asbytes=True)  # some blocks do not shrink
        token = 0x10 if place % 3 == 2 else 0x20
        out += b"LZ4Block" + struct.pack("<BIII", token, len(packed), len(block), 0) + packed
    return out + b"LZ4Block" + struct.pack("<BIII", 0x10, 0, 0, 0)


def snappy(data: bytes, size: int = 32_768) -> bytes:
    """Compress as Spark's snappy does: a header, then blocks with their length."""
    out, codec = b"\x82SNAPPY\x00" + struct.pack(">II", 1, 1), pa.Codec("snappy")
    for block in _blocks(data, size):
        packed = codec.compress(block, asbytes=True)
        out += struct.pack(">I", len(packed)) + packed
    return out


def zstd(data: bytes) -> bytes:
    """Compress with zstd."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


CODECS = {"plain": bytes, "gzip": gzip.compress, "zstd": zstd, "lz4": lz4, "snappy": snappy}
