"""Many simulations as one Spark job: a task brings a stream into its memory once and tries many settings on it.

A task writes what it found as soon as it is done, so a sweep that was killed goes on where it stopped, and a task
that runs twice writes the same file twice. Every executor must see the folder of results and the files of the streams.
"""

import threading
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from keyspread.evaluation.result_store import Results
from keyspread.evaluation.run import Run

_RUNS_A_TASK = 16
"""At most: bringing a stream into memory costs about as much as one or two runs on it."""

_PATIENCE = 0.5  # seconds between two looks at what is done


def sweep(
    spark: SparkSession, runs: Sequence[Run], results: Results, progress: Callable[[int, int], None] | None = None
) -> int:
    """Simulate the runs that `results` does not have yet, and return how many those were.

    The same numbers as `keyspread.simulate`, whatever the cluster. `progress` is called with the messages routed so
    far and in all.

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
    job = numbers.mapInArrow(_simulating(tasks, results.folder), "runs bigint")
    if progress is None:
        job.collect()
    else:
        _watched(job.collect, todo, results, progress)
    return len(todo)


def _tasks(runs: Sequence[Run]) -> list[list[Run]]:
    """Put runs of one stream together, dear tasks first: the last ones to end shall be short."""
    by_stream: dict[str, list[Run]] = {}
    for run in runs:
        by_stream.setdefault(repr(run.stream), []).append(run)
    tasks = [
        own[start : start + _RUNS_A_TASK] for own in by_stream.values() for start in range(0, len(own), _RUNS_A_TASK)
    ]
    return sorted(tasks, key=lambda task: -sum(map(_cost, task)))


def _cost(run: Run) -> int:
    return int(run.stream.parameters().get("messages") or 1)


def _simulating(tasks: list[list[Run]], folder: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def simulate_tasks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        results = Results(folder)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                runs = tasks[number]
                stream = runs[0].stream.encoded()
                results.add(pa.concat_tables([run.result(stream) for run in runs]))
                yield pa.record_batch({"runs": pa.array([len(runs)], pa.int64())})

    return simulate_tasks


def _watched(
    action: Callable[[], object], todo: Sequence[Run], results: Results, progress: Callable[[int, int], None]
) -> None:
    """Do it in another thread and tell how far it is, by what lies in the folder: that works on any cluster."""
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
        thread.join(_PATIENCE)
        progress(sum(costs.get(run, 0) for run in results.done()), total)
    if problems:
        raise problems[0]
