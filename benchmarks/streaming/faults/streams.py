"""Random streams: hot keys, null keys, late rows, batches of very different sizes."""

import os
import random
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = "id bigint, time timestamp, key string, value bigint"
FILES = 3  # per batch, each read by a task of its own, so that a batch has several senders
BEGIN = 1_700_000_000_000_000  # no window lies before the first watermark, which is 1970
SPAN = 90_000_000  # microseconds of event time


@dataclass(frozen=True)
class Row:
    """A row of the input."""

    id: int
    time: int  # microseconds
    key: str | None
    value: int


Batches = list[list[Row]]


def draw_batches(dice: random.Random) -> Batches:
    """Draw a stream of a few hundred to a few thousand rows in three to six batches."""
    many = int(10 ** dice.uniform(2.3, 3.4))
    hot, warm, keys = dice.uniform(0.2, 0.6), dice.uniform(0, 0.2), dice.choice([5, 50, 300])
    batches: Batches = [[] for _ in range(dice.randint(3, 6))]
    ends = [*sorted(dice.randrange(many + 1) for _ in batches[1:]), many]
    at, batch = BEGIN, 0
    for number in range(many):
        while number >= ends[batch]:
            batch += 1
        at += dice.randrange(2 * SPAN // many)
        lateness = dice.randrange(60_000_000) if dice.random() < 0.05 else dice.randrange(2_000_000)
        drawn = dice.random()
        key = "hot" if drawn < hot else "warm" if drawn < hot + warm else f"k{dice.randrange(keys)}"
        batches[batch].append(Row(number, at - lateness, None if dice.random() < 0.03 else key, dice.randrange(100)))
    return batches


def write_batches(batches: Batches, folder: Path, dice: random.Random) -> None:
    """Write every batch as files whose times make Spark read them in order."""
    folder.mkdir(parents=True)
    for number, batch in enumerate(batches):
        parts: list[list[Row]] = [[] for _ in range(FILES)]
        for row in batch:
            dice.choice(parts).append(row)
        for part, rows in enumerate(parts):
            table = pa.table(
                {
                    "id": pa.array([row.id for row in rows], pa.int64()),
                    "time": pa.array([row.time for row in rows], pa.timestamp("us", tz="UTC")),
                    "key": pa.array([row.key for row in rows], pa.string()),
                    "value": pa.array([row.value for row in rows], pa.int64()),
                }
            )
            path = folder / f"{number:03d}-{part}.parquet"
            pq.write_table(table, path)
            moment = 1_000_000_000 + FILES * number + part
            os.utime(path, (moment, moment))
