"""A folder of results: a run that is in it is never simulated again, and every file in it is complete.

Each file is written under a hidden name and then renamed, so a killed sweep leaves only complete files. The folder is
an ordinary Parquet data set: pandas, Spark and DuckDB read it as one table with the columns of `run.SCHEMA`.
"""

import hashlib
import os
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import keyspread
from keyspread.errors import InputError
from keyspread.paper.runs.run import SCHEMA, Run

TABLE_FORMAT = "2"
"""The version of the columns and of what they mean."""

_FORMAT, _VERSION, _RUNS = b"keyspread.table_format", b"keyspread.version", b"keyspread.paper.runs.run"


class Results:
    """The results in a folder. Any number of processes may add results at the same time."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Open a folder; create it if it does not exist, and refuse it if it cannot be written."""
        self.folder = os.fspath(folder)
        self._known: dict[str, set[str]] = {}  # file -> its runs; a file never changes
        try:
            os.makedirs(self.folder, exist_ok=True)
            probe = os.path.join(self.folder, f".{uuid.uuid4().hex}")
            with open(probe, "wb"):
                pass
            os.remove(probe)
        except OSError as problem:
            raise InputError(
                f"{self.folder}: cannot be written ({problem.strerror or problem}): choose another folder"
            ) from None

    def add(self, table: pa.Table) -> None:
        """Store the results of one or several runs: all of them or none."""
        runs = sorted(pc.unique(table["run"]).to_pylist())
        about = {
            _FORMAT: TABLE_FORMAT.encode(),
            _VERSION: keyspread.__version__.encode(),
            _RUNS: " ".join(runs).encode(),
        }
        name = f"part-{hashlib.sha256(about[_RUNS]).hexdigest()[:20]}.parquet"
        hidden = os.path.join(self.folder, f".{uuid.uuid4().hex}")
        try:
            # The columns of a run repeat for each of its slots: dictionary encoding makes that nearly free.
            pq.write_table(table.replace_schema_metadata(about), hidden, compression="zstd")
            os.replace(hidden, os.path.join(self.folder, name))
        finally:
            if os.path.exists(hidden):
                os.remove(hidden)

    def done(self) -> set[str]:
        """Return the ids of all stored runs."""
        return {run for part in self._parts() for run in self._about(part)}

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Return the runs that are not stored, each once."""
        done = self.done()
        return list({run.id: run for run in runs if run.id not in done}.values())

    def table(self, runs: Sequence[Run] | None = None) -> pa.Table:
        """Return all results, or those of these runs, ordered by run and slot."""
        left = self.done() if runs is None else {run.id for run in runs}
        tables = [SCHEMA.empty_table()]
        for part in self._parts():
            # A run that two sweeps made at the same time is in two files; read it once.
            if take := left & self._about(part):
                table = self._read(part)
                tables.append(table.filter(pc.is_in(table["run"], pa.array(sorted(take), pa.string()))))
                left = left - take
        return pa.concat_tables(tables).sort_by([("run", "ascending"), ("slot", "ascending")]).combine_chunks()

    @staticmethod
    def _read(part: str) -> pa.Table:
        """Read one file; its schema can be intact while its columns are damaged."""
        try:
            return pq.read_table(part, schema=SCHEMA)
        except (pa.ArrowException, OSError) as problem:
            raise InputError(f"{part}: is damaged ({_in_one_line(problem)}): delete the file") from None

    def _parts(self) -> list[str]:
        names = sorted(os.listdir(self.folder))
        return [os.path.join(self.folder, name) for name in names if name.endswith(".parquet") and name[0] not in "._"]

    def _about(self, part: str) -> set[str]:
        """Return the ids of the runs in one file; refuse a file of another origin or version."""
        if part not in self._known:
            self._known[part] = self._read_about(part)
        return self._known[part]

    @staticmethod
    def _read_about(part: str) -> set[str]:
        remedy = "choose another folder, or delete this one to compute everything again"
        try:
            about = pq.read_schema(part).metadata or {}
        except (pa.ArrowException, OSError) as problem:
            raise InputError(f"{part}: is not a table ({_in_one_line(problem)}): delete the file") from None
        if _RUNS not in about:
            raise InputError(f"{part}: is not a table of keyspread: {remedy}")
        found = (about.get(_FORMAT, b"?").decode(errors="replace"), about.get(_VERSION, b"?").decode(errors="replace"))
        if found != (TABLE_FORMAT, keyspread.__version__):
            raise InputError(
                f"{part}: comes from keyspread {found[1]} (table format {found[0]}), "
                f"this is {keyspread.__version__} (table format {TABLE_FORMAT}): {remedy}"
            )
        return set(about[_RUNS].decode(errors="replace").split())


def _in_one_line(problem: Exception) -> str:
    return " ".join(str(problem).split())


# Many simulations as one Spark job: a task loads a stream once and runs many simulations on it.
#
# A task writes its results as soon as it is done. So a sweep that was killed resumes where it stopped, and a task that
# runs twice writes the same file twice. Every executor needs access to the folder of results and the files of the
# streams.


_RUNS_PER_TASK = 16
"""The maximum; loading a stream costs about as much as one or two runs on it."""

_POLL_SECONDS = 0.5  # between two looks at the progress


def sweep(
    spark: SparkSession, runs: Sequence[Run], results: Results, progress: Callable[[int, int], None] | None = None
) -> int:
    """Simulate the runs that `results` does not have yet, and return how many those were.

    The numbers are those of `keyspread.simulate`, on any cluster. `progress` is called with the number of messages
    routed so far and with the total.

    >>> import tempfile
    >>> from keyspread.paper.runs.run import grid
    >>> from keyspread.spark import session
    >>> from keyspread.streams import ZipfStream
    >>> runs = grid([ZipfStream(1.4, 100, 1000)], scheme=["pkg", "wc"], workers=10)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sweep(session(), runs, Results(folder)), sweep(session(), runs, Results(folder))
    (2, 0)
    """
    todo = results.missing(runs)
    if not todo:
        return 0
    tasks = _tasks(todo)
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    job = numbers.mapInArrow(_simulator(tasks, results.folder), "runs bigint")
    if progress is None:
        job.collect()
    else:
        _with_progress(job.collect, todo, results, progress)
    return len(todo)


def _tasks(runs: Sequence[Run]) -> list[list[Run]]:
    """Group the runs by stream. Expensive tasks come first, so that the last ones to end are short."""
    by_stream: dict[str, list[Run]] = {}
    for run in runs:
        by_stream.setdefault(repr(run.stream), []).append(run)
    tasks = [
        group[start : start + _RUNS_PER_TASK]
        for group in by_stream.values()
        for start in range(0, len(group), _RUNS_PER_TASK)
    ]
    return sorted(tasks, key=lambda task: -sum(map(_cost, task)))


def _cost(run: Run) -> int:
    return int(run.stream.parameters().get("messages") or 1)


def _simulator(tasks: list[list[Run]], folder: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def simulate_tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        results = Results(folder)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                runs = tasks[number]
                stream = runs[0].stream.encoded()
                results.add(pa.concat_tables([run.result(stream) for run in runs]))
                yield pa.record_batch({"runs": pa.array([len(runs)], pa.int64())})

    return simulate_tasks


def _with_progress(
    action: Callable[[], object], todo: Sequence[Run], results: Results, progress: Callable[[int, int], None]
) -> None:
    """Run the action in a thread and report progress from the files in the folder, which works on any cluster."""
    problems: list[BaseException] = []

    def act() -> None:
        try:
            action()
        except BaseException as problem:
            problems.append(problem)

    costs = {run.id: _cost(run) for run in todo}
    total = sum(costs.values())
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
        progress(sum(costs.get(run, 0) for run in results.done()), total)
    if problems:
        raise problems[0]
