"""Real-time mode: does spreading raise the rate of a running count by key, if one key has most of the messages?

Real-time mode folds nothing before the exchange, so one task updates the state of a hot key for every message. Two
queries empty the same topic, taking turns, n = 4: plain `groupBy(key).agg(count(*))`, and `RealtimeParts` with a plan
in SQL, whose parts of the hot key are on all workers. A third one routes by `per-key`, in Python.

The work is a function of every row that comes out of the state, in the task that has the state. It waits, so that the
cores of this machine are not the limit. Without work, the cost of routing and of state is all there is. Every answer
is compared with the exact counts.

    ./dev bench realtime_rate [ROUNDS]
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np
from live.engine import Engine, engine
from live.topics import SOURCES, fill, settle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import keyspread as ks
from keyspread.spark.realtime import RealtimeParts
from keyspread.streams import ZipfStream

from common import console, numbers, show

WORKERS, SKEW = 4, 2.0
PLAIN = "groupBy(key)"
MESSAGES = {0: 200_000, 1: 4_000}
"""Messages by the milliseconds of work."""
IN_PYTHON = 10_000
_PATIENCE = 120.0
Query = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Topic:
    name: str
    keys: np.ndarray


def plain(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").agg(F.count("*").alias("n"))


def parts(**routing: object) -> Query:
    return lambda rows: RealtimeParts(rows, "key", {"n": "count(*)"}, WORKERS, **routing).rows


def waited(milliseconds: int, value: F.Column) -> F.Column:
    """Return the value after a wait in the JVM, so that Python is not the limit."""
    if not milliseconds:
        return value
    slept = F.reflect(F.lit("java.lang.Thread"), F.lit("sleep"), F.lit(milliseconds).cast("bigint"))
    return F.when(slept.isNotNull(), value)  # a method without a result returns the text "null"


def rate(live: Engine, topic: Topic, query: Query, milliseconds: int) -> float:
    """Empty the topic, check the counts, and return messages per second from the first result to the last."""
    sink = live.topic(1)
    out = query(live.read(topic.name).withColumn("key", F.col("key").cast("string")))
    text = F.concat_ws(",", *(F.col(name).cast("string") for name in out.columns))
    with live.query(out.select(waited(milliseconds, text).alias("value")), sink) as running:
        live.wait_for(sink, topic.keys.size, running, _PATIENCE)
    found = live.messages(sink).select(F.col("timestamp").cast("double"), F.col("value").cast("string")).collect()
    largest: dict[str, int] = {}  # of each tag and key: a count only grows
    for _, value in found:
        part, _, count = value.rpartition(",")
        largest[part] = max(largest.get(part, 0), int(count))
    counts: Counter[str] = Counter()
    for part, number in largest.items():
        counts[part.rpartition(",")[2]] += number
    if counts != Counter(map(str, topic.keys.tolist())):
        raise SystemExit(f"{topic.keys.size} messages were sent, and the counts of {sum(counts.values())} came")
    times = [at for at, _ in found]
    return topic.keys.size / (max(times) - min(times))


def ways(topic: Topic, short: Topic) -> dict[str, tuple[Topic, Query]]:
    plan = ks.plan(ks.hash_keys([str(key) for key in topic.keys.tolist()]), WORKERS)
    return {
        PLAIN: (topic, plain),
        "RealtimeParts, a plan in SQL": (topic, parts(plan=plan)),
        "RealtimeParts, per-key in Python": (short, parts(scheme="per-key")),
    }


def main() -> None:
    (rounds,) = numbers(rounds=3)
    with engine(slots=10, **{"spark.sql.shuffle.partitions": WORKERS}) as live:
        console.print(f"Spark {live.spark.version} with {live.connector}")
        keys = ZipfStream(SKEW, 10_000, max(MESSAGES.values())).law().draw(0, max(MESSAGES.values()))
        topics = {many: Topic(fill(live, keys[:many]), keys[:many]) for many in {*MESSAGES.values(), IN_PYTHON}}
        for milliseconds, messages in MESSAGES.items():
            queries = ways(topics[messages], topics[min(messages, IN_PYTHON)])
            found: dict[str, list[float]] = {name: [] for name in queries}
            for counts in [False] + [True] * rounds:  # the first round warms up
                for name, (topic, query) in queries.items():
                    settle()
                    measured = rate(live, topic, query, milliseconds)
                    if counts:
                        found[name].append(measured)
            table = []
            for name, rates in found.items():
                ratios = [own / base for own, base in zip(rates, found[PLAIN], strict=True)]
                span = f"{min(ratios):.2f} – {max(ratios):.2f}"
                table.append([name, f"{median(rates):,.0f}", f"{median(ratios):.2f} x", span])
            hottest = np.bincount(keys).max() / keys.size
            title = f"{milliseconds} ms of work per row, Zipf {SKEW:g} (hottest key {100 * hottest:.0f} %)"
            columns = ["", "messages / s", "/ groupBy", "(range)"]
            show(f"{title}, {SOURCES} partitions -> n = {WORKERS}, {rounds} rounds", columns, table)


if __name__ == "__main__":
    main()
