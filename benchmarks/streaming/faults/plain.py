"""The plain answers, in plain Python."""

from collections.abc import Iterable

from faults.streams import Batches, Row

DELAY = 5_000_000  # microseconds that the watermark stays behind
Answer = list[list[object]]  # the rows that a sink gets, sorted


def ordered(rows: Iterable[Iterable[object]]) -> Answer:
    """Return rows as JSON would, in an order that does not depend on their types."""
    return sorted(map(list, rows), key=repr)


def totals(rows: Iterable[Row]) -> dict[str | None, tuple[int, int]]:
    """Return count and sum of every key."""
    found: dict[str | None, tuple[int, int]] = {}
    for row in rows:
        n, total = found.get(row.key, (0, 0))
        found[row.key] = n + 1, total + row.value
    return found


def batch_totals(batches: Batches) -> list[Answer]:
    """Return count and sum of every key of every batch alone."""
    return [ordered((key, *both) for key, both in totals(batch).items()) for batch in batches]


def running_totals(batches: Batches) -> list[Answer]:
    """Return, for every batch, the totals so far of the keys in it."""
    answers = []
    for number, batch in enumerate(batches):
        so_far = totals(row for earlier in batches[: number + 1] for row in earlier)
        answers.append(ordered((key, *so_far[key]) for key in {row.key for row in batch}))
    return answers


def closed_windows(batches: Batches, length: int, slide: int) -> Answer:
    """Return end, key, count and sum of every window that is over after the last batch.

    A row is too late for a window that was over before the previous batch: Spark removes windows at the end of a
    batch, by the watermark of all batches before it, and drops late rows by the watermark one batch older.
    """
    found: dict[tuple[int, str | None], tuple[int, int]] = {}
    marks = [0, 0]  # watermarks of the batch before and of this one
    latest = 0
    for batch in batches:
        for row in batch:
            first = (row.time // slide + 1) * slide
            for end in range(first, row.time + length + 1, slide):
                if end > marks[-2]:
                    n, total = found.get((end, row.key), (0, 0))
                    found[end, row.key] = n + 1, total + row.value
        latest = max([latest, *(row.time for row in batch)])
        marks.append(max(marks[-1], (latest - DELAY) // 1000 * 1000))
    return ordered((end, key, *both) for (end, key), both in found.items() if end <= marks[-1])
