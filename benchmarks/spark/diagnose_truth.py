"""Jobs whose truth is known: is the hot key named where there is one, and nowhere else? Do the suggested lines run?

Every job sleeps 2 ms per row, on 8 slots, with 16 partitions; 40 % of the orders have customer 7. Half of the jobs lose
time to this key in all forms that a plan may have; the others take long for another reason. Bars: operator and key
columns are named, and nothing else is called skew; every line of code that a finding suggests runs on Spark.

    ./dev bench diagnose_truth [ROWS] [FIRST] [LAST]

`FIRST` and `LAST` are numbers of jobs; 1 to 20 have every kind of operator and key. KEYSPREAD_LOGS names a folder in
which a log of each job is kept, with its truth.
"""

import json
import os
import tempfile
from pathlib import Path

from pyspark import cloudpickle
from truth import even, lines, skewed
from truth.rig import PARTITIONS, SLOTS, Job, Rig

from keyspread.diagnosis import Diagnosis
from keyspread.spark import diagnosing, session

from common import console, numbers, show, verdict

_PARTS = tuple(
    f'{{"Event":"{name}'.encode()
    for name in ("SparkListenerJob", "SparkListenerStage", "SparkListenerTask", "org.apache.spark.sql")
)
AT_FIRST = (
    "join",
    "window",
    "collect_list",
    "write",
    "stream, repartition",
    "applyInPandas, cold Python",
    "read from a cache",
    "fill a cache",
    "reused exchange: two windows",
    "stream, collect_list",
    "join by an expression",
    "join, name with a dot",
    "join, output skew",
    "collect_list by an expression",
    "collect_list, rollup",
    "collect_list by a time window",
    "collect_list, name with a blank",
    "applyInPandas, even",
    "uneven files",
    "slots shared by two jobs",
)
FINDS = {"spark.sql.adaptive.coalescePartitions.enabled": "false", "spark.sql.autoBroadcastJoinThreshold": "-1"}


def main() -> None:
    for module in (even, lines, skewed):
        cloudpickle.register_pickle_by_value(module)  # the Python workers cannot import them
    rows, first, last = numbers(rows=4000, first=1, last=10**6)
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder) / "logs"
        logs.mkdir()
        spark = session(
            master=f"local[{SLOTS},4]",
            **{
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": logs.as_uri(),
                # One plain file, of which the part of each job can be kept.
                "spark.eventLog.compress": "false",
                "spark.eventLog.rolling.enabled": "false",
                "spark.sql.shuffle.partitions": PARTITIONS,
                **FINDS,
            },
        )
        console.print(f"Spark {spark.version}, {rows:,} rows, {SLOTS} slots, {PARTITIONS} partitions")
        rig = Rig(spark, Path(folder), rows)
        order = {name: place for place, name in enumerate(AT_FIRST)}
        jobs = [*skewed.skewed_jobs(rig), *even.even_jobs(rig)]
        jobs.sort(key=lambda job: order.get(job.name, len(order)))
        kept = KeptLogs(logs)
        table = [tried(rig, kept, place, job) for place, job in enumerate(jobs, 1) if first <= place <= last]
        spark.stop()
    columns = ("job", "truth", "found", "seconds", "lines run", "verdict")
    show("Truth and diagnosis", columns, table)
    right = sum("reached" in str(row[-1]) for row in table)
    console.print(f"{right} of {len(table)} jobs are diagnosed rightly")


class KeptLogs:
    """Writes the part of each job in the log of the session as a log of its own, if KEYSPREAD_LOGS names a folder."""

    def __init__(self, logs: Path) -> None:
        name = os.environ.get("KEYSPREAD_LOGS")
        self._folder = Path(name) if name else None
        self._log = next(iter(logs.iterdir()))
        head = (line for line in self._log.read_bytes().splitlines(keepends=True) if not line.startswith(_PARTS))
        self._head = b"".join(head)
        self._seen = self._log.stat().st_size

    def skip(self) -> bytes:
        """Return what was added to the log since the last time, and leave it out."""
        with self._log.open("rb") as file:
            file.seek(self._seen)
            part = file.read()
        self._seen += len(part)
        return part

    def keep(self, place: int, job: Job) -> None:
        """Write what was added to the log since the last job."""
        part = self.skip()
        if self._folder is not None:
            path = self._folder / f"{place:02}-{''.join(c if c.isalnum() else '_' for c in job.name)}"
            path.write_bytes(self._head + part)
            truth = {"operator": job.operator, "keys": job.keys, "kinds": job.kinds}
            path.with_suffix(".json").write_text(json.dumps(truth))


def tried(rig: Rig, kept: KeptLogs, place: int, job: Job) -> tuple[object, ...]:
    """Run one job, diagnose it and return its row of the table."""
    for name, value in job.settings.items():
        rig.spark.conf.set(name, value)
    problem = ""
    with diagnosing(rig.spark, show=False) as seen:
        try:
            job.run()
        except Exception as error:
            problem = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    kept.keep(place, job)
    for name in job.settings:
        rig.spark.conf.unset(name)
    assert seen.diagnosis is not None
    right, found = judged(job, seen.diagnosis) if not problem else (False, problem)
    truth = f"{job.operator} by {', '.join(job.keys)}" if job.operator else ", ".join(job.kinds) or "no skew"
    failing = lines.lines_that_fail(seen.diagnosis, job.names) if job.names else []
    kept.skip()
    ran = sum(bool(remedy.code) for finding in seen.diagnosis.skew for remedy in finding.remedies)
    for problem in failing:
        console.print(f"[red]{job.name}[/red]: {problem}", highlight=False)
    console.print(f"{place} {job.name}", highlight=False)
    if not right:
        console.print(f"[red]{job.name}[/red]: {found}", highlight=False)
    seconds = seen.diagnosis.facts["seconds"]
    run = f"{ran - len(failing)} of {ran}" if ran else ""
    return (
        f"{place} {job.name}"[:38],
        truth[:40],
        found[:40],
        f"{seconds or 0:.1f}",
        run,
        verdict(right and not failing),
    )


def judged(job: Job, diagnosis: Diagnosis) -> tuple[bool, str]:
    """Return whether a diagnosis is right, and what it says."""
    skew = [f"{finding.operator} by {', '.join(finding.keys)}" for finding in diagnosis.skew]
    others = [f"{finding.kind}: {finding.text}" for finding in diagnosis.others]
    if job.operator is not None:
        return skew == [f"{job.operator} by {', '.join(job.keys)}"], "; ".join(skew) or "; ".join(others) or "no skew"
    named = not job.kinds or any(finding.kind in job.kinds for finding in diagnosis.others)
    return not skew and named, "; ".join(skew or others) or "no skew"


if __name__ == "__main__":
    main()
