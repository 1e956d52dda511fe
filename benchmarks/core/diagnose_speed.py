"""How fast an event log is diagnosed, and with how much memory.

A log of 1,000,000 tasks is made (3.8 kB per task, as Spark 4 writes them, zstd) and diagnosed in a process of its own,
with orjson and with Python's json. Bars: 40 MB of uncompressed log per second of CPU time, and 1 GB of memory.

    ./dev bench diagnose_speed [TASKS]
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from common import numbers, show, verdict

STAGES = 4
SLOTS = 200
SQL = "org.apache.spark.sql.execution.ui."

DIAGNOSE = """
import json, resource, sys, time
if sys.argv[2] == "json":
    sys.modules["orjson"] = None  # as if it were not installed
from keyspread.diagnosis import diagnose_log
begin = time.process_time()
(found,) = diagnose_log(sys.argv[1])
seconds = time.process_time() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([found.facts["bytes"], seconds, peak, len(found.skew), found.facts["tasks"]]))
"""


def main() -> None:
    (tasks,) = numbers(tasks=1_000_000)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.zstd"
        make_log(path, tasks)
        for reader in ("orjson", "json"):
            done = subprocess.run(
                [sys.executable, "-c", DIAGNOSE, str(path), reader], capture_output=True, text=True, check=True
            )
            size, seconds, peak, found, seen = json.loads(done.stdout)
            rate = size / seconds / 1e6
            reached = verdict(rate >= 40 and peak <= 1e9 and found == 1 and seen == tasks)
            columns = (
                f"{seen:,}",
                f"{size / 1e9:.2f} GB",
                f"{seconds:.1f} s",
                f"{rate:.0f} MB/s",
                f"{peak / 1e6:.0f} MB",
            )
            rows.append((reader, *columns, reached))
    show("Diagnosing one log", ("reader", "tasks", "log", "CPU time", "rate", "peak memory", "verdict"), rows)


def make_log(path: Path, tasks: int) -> None:
    """Write a log of the same skewed window four times: one finding."""
    with pa.OSFile(str(path), "wb") as file, pa.CompressedOutputStream(file, "zstd") as out:
        for block in blocks(tasks):
            out.write(block)


def blocks(tasks: int) -> Iterator[bytes]:
    """Yield the log in blocks of some megabytes."""
    begin = 1_700_000_000_000
    yield line({"Event": "SparkListenerLogStart", "Spark Version": "4.0.0"})
    info = {"Host": "h", "Total Cores": SLOTS}
    yield line({"Event": "SparkListenerExecutorAdded", "Executor ID": "1", "Executor Info": info})
    yield line({"Event": "SparkListenerApplicationStart", "App Name": "made", "App ID": "app-1", "Timestamp": begin})
    for stage in range(STAGES):
        yield line(start_of_query(stage, tasks))
        yield line(
            {
                "Event": "SparkListenerJobStart",
                "Job ID": stage,
                "Stage IDs": [stage],
                "Properties": {"spark.sql.execution.id": str(stage)},
            }
        )
        events = "\n".join(json.dumps(event, separators=(",", ":")) for event in (task_start(), task_end()))
        template = events.replace("%", "%%").replace('"@', "%(").replace('@"', ")d")
        many = range(stage * tasks // STAGES, (stage + 1) * tasks // STAGES)
        block = []
        for place, task in enumerate(many):
            rows = 500 + place % 37 if place < len(many) - 1 else 5 * tasks
            launch = begin + 1000 * (place // SLOTS)
            values = {"stage": stage, "task": task, "index": place, "rows": rows, "bytes": 100 * rows}
            values |= {
                "launch": launch,
                "finish": launch + 500 + 10 * rows,
                "read": 100 * stage + 1,
                "size": 100 * stage + 2,
            }
            block.append(template % values)
            if len(block) == 2000:
                yield "\n".join(block).encode() + b"\n"
                block = []
        if block:
            yield "\n".join(block).encode() + b"\n"
    yield line({"Event": "SparkListenerApplicationEnd", "Timestamp": begin + 10**7})


def line(event: dict[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def start_of_query(stage: int, tasks: int) -> dict[str, Any]:
    read = [{"name": "records read", "accumulatorId": 100 * stage + 1, "metricType": "sum"}]
    read += [{"name": "local bytes read", "accumulatorId": 100 * stage + 2, "metricType": "size"}]
    text = f"Exchange hashpartitioning(customer#1L, {tasks // STAGES}), ENSURE_REQUIREMENTS, [plan_id=1]"
    exchange = {"nodeName": "Exchange", "simpleString": text, "children": [], "metrics": read}
    window = {"nodeName": "Window", "simpleString": "Window [customer#1L]", "children": [exchange], "metrics": []}
    name = f"{SQL}SparkListenerSQLExecutionStart"
    return {"Event": name, "executionId": stage, "description": f"query {stage}", "sparkPlanInfo": window}


def task_start() -> dict[str, Any]:
    """Return the event that a task has started, with the fields of a task that has not ended."""
    end = task_end()
    info = {**end["Task Info"], "Finish Time": 0, "Accumulables": []}
    return {"Event": "SparkListenerTaskStart", "Stage ID": "@stage@", "Stage Attempt ID": 0, "Task Info": info}


def task_end() -> dict[str, Any]:
    """Return the event of a task as Spark 4 writes it; '@name@' stands for a number."""

    def added(id: object, name: str, value: object, sql: bool = False) -> dict[str, Any]:
        more = {"Metadata": "sql"} if sql else {}
        return {
            "ID": id,
            "Name": name,
            "Update": value,
            "Value": value,
            "Internal": True,
            "Count Failed Values": True,
            **more,
        }

    sql = ["number of output rows", "duration", "sort time", "peak memory", "spill size", "shuffle records written"]
    inner = ["executorDeserializeTime", "executorRunTime", "executorCpuTime", "resultSize", "jvmGCTime"]
    inner += ["shuffle.read.localBlocksFetched", "shuffle.read.recordsRead", "shuffle.write.bytesWritten"]
    accumulables = [
        added("@read@", "records read", "@rows@", True),
        added("@size@", "local bytes read", "@bytes@", True),
    ]
    accumulables += [added(1000 + place, name, "12345", True) for place, name in enumerate(sql)]
    accumulables += [added(2000 + place, f"internal.metrics.{name}", 12345) for place, name in enumerate(inner)]
    memory = ["JVMHeapMemory", "JVMOffHeapMemory", "OnHeapExecutionMemory", "OffHeapExecutionMemory", "TotalGCTime"]
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": "@stage@",
        "Stage Attempt ID": 0,
        "Task Type": "ShuffleMapTask",
        "Task End Reason": {"Reason": "Success"},
        "Task Info": {
            "Task ID": "@task@",
            "Index": "@index@",
            "Attempt": 0,
            "Partition ID": "@index@",
            "Launch Time": "@launch@",
            "Executor ID": "1",
            "Host": "10.0.0.1",
            "Locality": "PROCESS_LOCAL",
            "Speculative": False,
            "Getting Result Time": 0,
            "Finish Time": "@finish@",
            "Failed": False,
            "Killed": False,
            "Accumulables": accumulables,
        },
        "Task Executor Metrics": dict.fromkeys(memory, 0) | {f"ProcessTreeMetric{place}": 0 for place in range(12)},
        "Task Metrics": {
            "Executor Deserialize Time": 143,
            "Executor Run Time": 351,
            "Executor CPU Time": 36868186,
            "Peak Execution Memory": 0,
            "Result Size": 2166,
            "JVM GC Time": 14,
            "Memory Bytes Spilled": 0,
            "Disk Bytes Spilled": 0,
            "Shuffle Read Metrics": {
                "Remote Blocks Fetched": 0,
                "Local Blocks Fetched": 8,
                "Fetch Wait Time": 0,
                "Remote Bytes Read": 0,
                "Local Bytes Read": "@bytes@",
                "Total Records Read": "@rows@",
                "Push Based Shuffle": {f"Merged Metric {place}": 0 for place in range(9)},
            },
            "Shuffle Write Metrics": {
                "Shuffle Bytes Written": 59,
                "Shuffle Write Time": 928,
                "Shuffle Records Written": 1,
            },
            "Input Metrics": {"Bytes Read": 0, "Records Read": 0},
            "Output Metrics": {"Bytes Written": 0, "Records Written": 0},
            "Updated Blocks": [],
        },
    }


if __name__ == "__main__":
    main()
