"""Run the same jobs on a cluster undisturbed and with a lost executor; test_lost_executors.py starts this script.

python lose_executors.py URL SETTINGS FOLDER prints one JSON object per scenario. In each scenario, the tasks behind the
spread write FOLDER/scenario/ready-N when they start, and continue when FOLDER/scenario/go exists; in between, the test
may kill an executor. Each task that reads rows leaves a file read-PARTITION-ATTEMPT.
"""

import json
import sys
import time
from pathlib import Path

from pyspark import cloudpickle

from frames import HOT
from keyspread import Operator
from keyspread.spark import aggregate, plan, session, spread

WORKERS, ROWS, PARTITIONS = 4, 2000, 4
PLACES = "at int, id bigint, key string, value bigint"
cloudpickle.register_pickle_by_value(sys.modules["frames"])


def wait_in(folder: Path, partition: int) -> None:
    """Report that this task runs, and wait until it may continue; an undisturbed run does not wait."""
    (folder / f"ready-{partition}").touch()
    until = time.monotonic() + 120
    while not (folder / "go").exists() and time.monotonic() < until:
        time.sleep(0.02)


def record_reads(folder: Path):  # type: ignore[no-untyped-def]
    """Make a step that leaves a file each time a partition is read."""

    def pass_on(batches):  # type: ignore[no-untyped-def]
        from pyspark import TaskContext

        task = TaskContext.get()
        (folder / f"read-{task.partitionId()}-{task.taskAttemptId()}").touch()
        yield from batches

    return pass_on


def report_rows(folder: Path):  # type: ignore[no-untyped-def]
    """Make the work of a worker: wait, then return its rows with the number of the worker."""

    def work(batches):  # type: ignore[no-untyped-def]
        import pyarrow as pa
        from pyspark import TaskContext

        where = TaskContext.get().partitionId()
        for number, batch in enumerate(batches):
            if number == 0:
                wait_in(folder, where)
            at = pa.array([where] * batch.num_rows, pa.int32())
            yield pa.RecordBatch.from_arrays([at, *batch.columns], ["at", *batch.schema.names])

    return work


class Total(Operator):  # type: ignore[type-arg]
    """The count and sum per key; the first update of a task waits."""

    schema = "n bigint, total bigint"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.waited = False

    def zero(self):  # type: ignore[no-untyped-def]
        return (0, 0)

    def update(self, state, rows):  # type: ignore[no-untyped-def]
        from pyspark import TaskContext

        if not self.waited:
            wait_in(self.folder, TaskContext.get().partitionId())
            self.waited = True
        return state[0] + len(rows), state[1] + int(rows["value"].sum())

    def merge(self, state, other):  # type: ignore[no-untyped-def]
        return state[0] + other[0], state[1] + other[1]

    def finish(self, state):  # type: ignore[no-untyped-def]
        return {"n": state[0], "total": state[1]}

    def __getstate__(self):  # type: ignore[no-untyped-def]
        return {"folder": self.folder, "waited": False}


def main(url: str, settings: str, folder: Path) -> None:
    """Run all scenarios, one after the other."""
    preloaded = {"spark.python.daemon.module": "keyspread.spark._launch.daemon"}
    spark = session(master=url, **{**json.loads(settings), "spark.sql.shuffle.partitions": WORKERS, **preloaded})
    rows = spark.range(0, ROWS, 1, PARTITIONS).selectExpr("id", f"{HOT} AS key", "id % 100 AS value")
    made = plan(rows, "key", WORKERS)
    ways = {"d-choices": {"scheme": "d-choices"}, "planned": {"plan": made}}
    for name in ("d-choices", "planned", "operator", "d-choices-shuffled", "planned-shuffled"):
        for disturbed in (False, True):
            here = folder / f"{name}-{'disturbed' if disturbed else 'quiet'}"
            here.mkdir()
            if not disturbed:
                (here / "go").touch()
            source = rows.repartition(PARTITIONS, "id") if name.endswith("shuffled") else rows
            read = source.mapInArrow(record_reads(here), rows.schema)
            if name == "operator":
                out = aggregate(read, "key", Total(here), WORKERS, plan=made)
            else:
                out = spread(read, "key", WORKERS, **ways[name.removesuffix("-shuffled")]).mapInArrow(
                    report_rows(here), PLACES
                )
            found, failed = [], ""
            try:
                found = [list(row) for row in out.collect()]
            except Exception as problem:
                failed = str(problem)
            reads = [tuple(map(int, file.name.split("-")[1:])) for file in here.glob("read-*")]
            print(json.dumps({"scenario": here.name, "rows": found, "reads": reads, "failed": failed}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
