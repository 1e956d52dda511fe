"""The Spark application of the campaign: it runs the queries of one group after the other.

    python -m faults.driver URL SETTINGS WORK           serve the groups that WORK/next names, until it is killed
    python -m faults.driver URL SETTINGS WORK second    run the queries of the present group once, beside the first

A query that fails is started again from its checkpoint, as its user would do; the second driver does not do that.
"""

import json
import os
import shutil
import sys
import time
import traceback
import uuid
from pathlib import Path
from typing import Any

from faults.gates import BEGUN, WRITTEN, wait_at
from faults.plain import Answer
from faults.schedules import Schedule
from faults.streams import FILES, SCHEMA
from faults.ways import END, WORKERS

AT_ONCE = 3  # queries that start
RESTARTS = 30  # of one query, then it is given up
POLL = 0.1


class Query:
    """The query of a schedule. What it leaves in the folder: begun-B, out/B-TOKEN.json, failed-N and done."""

    def __init__(self, spark: Any, schedule: Schedule, work: Path, second: bool) -> None:
        self.schedule, self.place, self.second = schedule, schedule.place(work), second
        self.spark = spark.newSession()
        for name, value in schedule.settings.items():
            self.spark.conf.set(name, value)
        self.query: Any = None
        self.ended = self.mark("done").exists()

    def mark(self, name: str) -> Path:
        return self.place.folder / (f"second-{name}" if self.second else name)

    def start(self) -> None:
        checkpoint = self.place.state / "checkpoint"
        if not self.second and not list((checkpoint / "offsets").glob("[0-9]*")):
            # Killed while it wrote its first offset: Spark refuses such a checkpoint. Nothing has been read yet.
            shutil.rmtree(self.place.state, ignore_errors=True)
        rows = (
            self.spark.readStream.schema(SCHEMA)
            .option("maxFilesPerTrigger", FILES)
            .parquet(str(self.place.folder / "in"))
        )
        out = self.schedule.way.stream(rows, self.place).writeStream.outputMode(self.schedule.way.mode)
        out = out.foreachBatch(self.sink).option("checkpointLocation", str(checkpoint))
        self.query = out.trigger(availableNow=True).start()

    def sink(self, rows: Any, number: int) -> None:
        self.mark(f"begun-{number}").touch()
        wait_at(self.place.folder, number, BEGUN)
        self.write(number, self.schedule.way.batch(rows, number, self.place))
        wait_at(self.place.folder, number, WRITTEN)

    def write(self, number: int, answer: Answer | None) -> None:
        """Keep every attempt: each of them must be right."""
        if answer is not None:
            hidden = self.place.folder / "out" / f".{uuid.uuid4().hex}"
            hidden.write_text(json.dumps(answer))
            hidden.rename(hidden.with_name(f"{number}-{hidden.name[1:]}.json"))

    def starting(self) -> bool:
        """Tell whether the query runs and its first batch has not begun."""
        return self.query is not None and not self.ended and not any(self.place.folder.glob(self.mark("begun-*").name))

    def step(self, hold: bool) -> None:
        """Start the query if it does not run; finish it if it has ended."""
        if self.ended or (self.query is not None and self.query.isActive):
            return
        try:
            if self.query is None:
                if not hold:
                    self.start()
                return
            problem = self.query.exception()
            if problem is None:
                self.write(END, self.schedule.way.end(self.spark, self.place))
                self.mark("done").touch()
                self.ended = True
                return
            text = str(problem)
        except Exception:
            text = traceback.format_exc()
        self.query = None
        self.failed(text)

    def failed(self, text: str) -> None:
        before = len(list(self.place.folder.glob("failed-*")))
        self.mark(f"failed-{before}").write_text(text)
        if self.second:
            self.ended = True
        elif before >= RESTARTS:
            self.mark("given-up").touch()
            self.mark("done").touch()
            self.ended = True


def serve(spark: Any, work: Path, second: bool) -> None:
    """Run the queries of a group side by side, until each has ended."""
    schedules = [Schedule(**one) for one in json.loads((work / "group.json").read_text())]
    queries = [Query(spark, schedule, work, second) for schedule in schedules]
    while not all(query.ended for query in queries):
        for query in queries:
            # Not all at once: Spark gives the Python process of a stateful query only ten seconds to start.
            many = sum(other.starting() for other in queries) >= AT_ONCE
            query.step(hold=many or ((work / "hold").exists() and not second))
        time.sleep(POLL)


def main(url: str, settings: str, work: Path, second: bool) -> None:
    """Serve one group after the other."""
    from keyspread.spark import session, stream_settings

    spark = session(master=url, **{**json.loads(settings), **stream_settings(WORKERS)})
    name = work / ("second-application" if second else "application")
    name.write_text(f"{os.getpid()} {spark.sparkContext.applicationId}")
    served = ""
    while not (second and served):
        wanted = (work / "next").read_text()
        if wanted != served:
            serve(spark, Path(wanted), second)
            served = wanted
        time.sleep(POLL)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), second=sys.argv[4:] == ["second"])
