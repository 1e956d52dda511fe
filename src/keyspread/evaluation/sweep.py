"""Many simulations as one Spark job: a task loads a stream once and runs many simulations on it.

A task writes its results as soon as it is done. So a sweep that was killed resumes where it stopped, and a task that
runs twice writes the same file twice. Every executor needs access to the folder of results and the files of the
streams.
"""

import threading
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from keyspread.evaluation.result_store import Results
from keyspread.evaluation.run import Run

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
    >>> from keyspread.evaluation.run import grid
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
