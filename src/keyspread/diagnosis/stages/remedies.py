"""What adaptive execution did about a skewed stage, and why not more. It looks at bytes, never at rows or time.

What to do about a finding, best first, each with the line of code to paste.
"""

import itertools
import re
from dataclasses import dataclass, replace

import numpy as np

from keyspread.diagnosis.log.application import Application
from keyspread.diagnosis.stages.finding import Remedy
from keyspread.diagnosis.stages.keys import (
    KeyPart,
    cogroup_source,
    join_source,
    key_source,
    new_names,
    sort_source,
    what_placeholder_means,
)
from keyspread.diagnosis.stages.shuffles import (
    AGGREGATE,
    CACHE,
    COGROUP,
    GROUPS,
    JOIN,
    SORT,
    STATE,
    WINDOW,
    WRITE,
    Consumer,
    Shuffle,
)

_PREFIX = "spark.sql.adaptive."
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
# The sides of a join that may be cut without a wrong answer: the other side is then read several times.
_SPLIT_SIDES = {
    "inner": "either side",
    "cross": "either side",
    "left outer": "the left side",
    "left semi": "the left side",
    "left anti": "the left side",
    "right outer": "the right side",
}


@dataclass(frozen=True)
class AdaptiveVerdict:
    """Whether adaptive execution was on, whether it split the partition, and the reason if it did not."""

    on: bool
    acted: bool
    reason: str
    would_split: bool = False
    """True if it would have split the partition, had it been on."""

    def __str__(self) -> str:
        """Return the verdict in a few words."""
        return f"{'on' if self.on else 'off'}{'; ' if self.reason else ''}{self.reason}"


def judge(application: Application, shuffle: Shuffle) -> AdaptiveVerdict:
    """Return what adaptive execution did about an exchange whose busiest task lost time."""
    query, consumer = shuffle.query, shuffle.consumer

    def setting(name: str) -> str | None:
        return application.setting(_PREFIX + name, query)

    enabled = setting("enabled")
    on = enabled.lower() == "true" if enabled is not None else _on_by_default(application.version)
    if _acted(shuffle):
        return AdaptiveVerdict(True, True, "it split the partition")
    if re.match(r"[12]\.", application.version):  # before Spark 3.0 there is nothing to switch on
        return AdaptiveVerdict(False, False, "")
    obstacle = _obstacle(shuffle)
    threshold = parse_bytes(setting("skewJoin.skewedPartitionThresholdInBytes") or "256MB")
    factor = _number(setting("skewJoin.skewedPartitionFactor"), 5.0)
    size = median = 0.0
    if shuffle.bytes is not None and len(shuffle.bytes):
        size, median = float(shuffle.bytes.max()), float(np.median(shuffle.bytes))
    large = size > threshold and size > factor * median
    if not on:
        return AdaptiveVerdict(False, False, "", would_split=large and not obstacle and not consumer.needs_same_keys)
    adaptive = query.plan is not None and any("AdaptiveSparkPlan" in node.name for node in query.plan.nodes[:5])
    if not adaptive:
        return AdaptiveVerdict(True, False, "the plan of this query is not adaptive")
    if obstacle:
        return AdaptiveVerdict(True, False, obstacle)
    if (setting("skewJoin.enabled") or "true").lower() == "false":
        return AdaptiveVerdict(True, False, "spark.sql.adaptive.skewJoin.enabled is false", would_split=large)
    if size and size <= threshold:
        return AdaptiveVerdict(True, False, f"{show_bytes(size)} < {_threshold_text(threshold)}: not split")
    if size and size <= factor * median:
        return AdaptiveVerdict(True, False, f"{size / median:.1f} × the median < {factor:g} ×: not split")
    if consumer.needs_same_keys:
        return AdaptiveVerdict(True, False, f"the {consumer.needs_same_keys} above needs the same keys", True)
    return AdaptiveVerdict(True, False, "it did not split the partition; the log does not say why")


def _acted(shuffle: Shuffle) -> bool:
    node = shuffle.consumer.node
    if node is not None and "skew=true" in node.name + node.text.split("[")[0]:
        return True
    # 3.0 and 3.1 call it CustomShuffleReader.
    readers = (one for one in shuffle.consumer.chain if "ShuffleRead" in one.name)
    return any("skewed" in reader.text for reader in readers)


def _obstacle(shuffle: Shuffle) -> str:
    """Return why adaptive execution never splits this operator, whatever its size."""
    consumer = shuffle.consumer
    if consumer.kind == CACHE:
        return "it does not change the partitions of a cache"
    if consumer.kind != JOIN:
        return "it splits only joins"
    if consumer.join_type == "full outer":
        return "full outer is never split"
    if consumer.join_type and consumer.join_type not in _SPLIT_SIDES:
        return f"a join of the type {consumer.join_type} is never split"
    sides = _SPLIT_SIDES.get(consumer.join_type, "either side")
    side = side_of(shuffle)
    if side and sides != "either side" and side not in sides:
        return f"of a {consumer.join_type} join only {sides} is split"
    return ""


def side_of(shuffle: Shuffle) -> str:
    """Return the side of the join that an exchange feeds: left, right, or '' if it feeds no join."""
    join = shuffle.consumer.node
    if join is None or len(join.children) != 2:
        return ""
    node = shuffle.exchange
    while node.parent is not None and node.parent is not join:
        node = node.parent
    return ("left", "right")[join.children.index(node)] if node.parent is join else ""


def parse_bytes(text: str) -> float:
    """Return the bytes of a setting such as 256MB, 200k or 1g; 0 if it is none."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgtp]?)i?b?\s*", text.lower())
    return float(match[1]) * _UNITS[match[2]] if match else 0.0


def show_bytes(size: float) -> str:
    """Return a size for people: 2.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def _threshold_text(threshold: float) -> str:
    return "256 MB" if threshold == 2**28 else show_bytes(threshold)


def _number(text: str | None, default: float) -> float:
    try:
        return float(text) if text is not None else default
    except ValueError:
        return default


def _on_by_default(version: str) -> bool:
    """Adaptive execution is on by default since Spark 3.2."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return match is not None and (int(match[1]), int(match[2])) >= (3, 2)


_BROADCAST = 100e6
"""Bytes up to which the other side of a join is worth a broadcast."""
_JOIN_NAMES = {
    "": "inner",
    "inner": "inner",
    "cross": "inner",
    "left outer": "left",
    "right outer": "right",
    "full outer": "full",
    "left semi": "semi",
    "left anti": "anti",
}
# The side that may be sent to every executor: never the one whose rows must all appear.
_BROADCAST_SIDES = {
    "inner": ("left", "right"),
    "cross": ("left", "right"),
    "left outer": ("right",),
    "left semi": ("right",),
    "left anti": ("right",),
    "right outer": ("left",),
}
SWITCH_ON = 'spark.conf.set("spark.sql.adaptive.enabled", "true")'


def remedies(shuffle: Shuffle, verdict: AdaptiveVerdict, others: list[Shuffle], slots: int) -> tuple[Remedy, ...]:
    """Return what to do about a skewed exchange, best first. `others` are the exchanges that the stage reads too."""
    kind = shuffle.consumer.kind
    if kind == JOIN:
        return _of_join(shuffle, verdict, others)
    if kind == COGROUP:
        return (_of_cogroup(shuffle),)
    found = _of_key(kind, shuffle.consumer, shuffle.key, shuffle.partitions or slots)
    if any(part.is_time_window for part in shuffle.key):  # the plan shows it in a form that nobody would type
        return tuple(Remedy(f"{one.text} Pass the time window as window= and time= of aggregate.") for one in found[:1])
    meaning = what_placeholder_means(shuffle.key, "sorts" if kind == SORT else "groups")
    return tuple(replace(one, text=one.text + meaning) if re.search(r"\bkey\b", one.code) else one for one in found)


def _of_key(kind: str, consumer: Consumer, key: tuple[KeyPart, ...], workers: int) -> tuple[Remedy, ...]:
    """Return what to do about an operator on one DataFrame."""
    source = key_source(key)
    spread = f"keyspread.spark.spread(df, {source}, workers={workers})"
    aggregate = f"keyspread.spark.aggregate(df, {source}, MyOperator(), workers={workers})"
    if kind == GROUPS:
        return (
            Remedy(
                "If the function can be computed from parts, write it as an Operator: a hot key is then worked on by "
                "several workers, and the parts are merged.",
                aggregate,
            ),
            Remedy(
                "If it works row by row and needs no groups, spread the rows and use mapInPandas.",
                f"{spread}.mapInPandas(f, schema)",
            ),
        )
    if kind == AGGREGATE:
        collects = [name for name in consumer.functions if name.startswith("collect_")]
        what = f"{collects[0]} builds one list per key in one task" if collects else "One task aggregates each key"
        return (
            Remedy(
                f"{what}. Fold what you do with the rows into an Operator: a hot key is then worked on by several "
                "workers.",
                aggregate,
            ),
        )
    if kind == WINDOW:
        return (
            Remedy(
                "If the time goes into work behind the window (functions, Python, a write), spread its rows first.",
                spread.replace("(df,", "(windowed,"),
            ),
            Remedy(
                "The window itself needs all rows of a key in one task. Filter before it, or add a column to "
                "partitionBy (a day, a type); for 'top n per key', rank within such pieces first.",
            ),
        )
    if kind == WRITE:
        by_folder = Remedy(
            "Spread the rows of a hot key over several writers, and keep small keys in few files.", _for_write(key)
        )
        # Without partitionBy there is no folder per key: the rows may go anywhere.
        even = Remedy("The files are not partitioned by the key: spread the rows evenly over the writers.", spread)
        return (by_folder,) if consumer.by_folder is not False else (even, by_folder)
    if kind == STATE:
        return (
            Remedy(
                "State of a key lives in one partition. Write the computation as an Operator: every micro-batch is "
                f"then spread and merged. The session needs keyspread.spark.stream_settings({workers}).",
                aggregate.replace("(df,", "(stream,"),
            ),
        )
    if kind == SORT:
        return (
            Remedy(
                "Rows with the same sort key fall into one range. Add a column that tells them apart, such as the "
                "position of a row.",
                f"df.orderBy({sort_source(key)}, F.monotonically_increasing_id())",
            ),
        )
    if kind == CACHE:
        return (
            Remedy(
                "A cache keeps the partitions with which it was filled: spread the rows before they are cached.",
                f"{spread}.cache()",
            ),
        )
    return (
        Remedy("Spread the rows: the same number of them in every partition, each key in as few as possible.", spread),
    )


def _for_write(key: tuple[KeyPart, ...]) -> str:
    """Return the call of for_write, which takes names only: a computed key becomes a column and is dropped again."""
    if key and not any(part.is_computed for part in key):
        return f"keyspread.spark.for_write(df, {key_source(key)})"
    source = key_source(key)
    sources = [part.source() for part in key] if source != "key" and key else ["key"]
    names = list(itertools.islice(new_names(None), len(sources)))
    frame = "df" + "".join(
        f'.withColumn("{name}", {value if value.startswith(("F.", "key")) else f"F.col({value})"})'
        for name, value in zip(names, sources, strict=False)
    )
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"keyspread.spark.for_write({frame}, {quoted if len(names) == 1 else f'[{quoted}]'}).drop({quoted})"


def _of_cogroup(shuffle: Shuffle) -> Remedy:
    source = cogroup_source(shuffle.key)
    text = "If the function handles each left row by itself, the left rows of a hot key can be cut into pieces."
    if source is None:
        return Remedy(f"{text} Use keyspread.spark.cogroup with per_left=True, by columns that hold the computed key.")
    return Remedy(
        text,
        f"keyspread.spark.cogroup({source.left}, {source.right}, {source.on}, f, schema, per_left=True)",
    )


def _of_join(shuffle: Shuffle, verdict: AdaptiveVerdict, others: list[Shuffle]) -> tuple[Remedy, ...]:
    found = []
    source = join_source(shuffle.consumer.node) if shuffle.consumer.node is not None else None
    side, join_type = side_of(shuffle), shuffle.consumer.join_type or "inner"
    how = _JOIN_NAMES.get(join_type, "")
    partners = [
        one
        for one in others
        if one.consumer.node is shuffle.consumer.node and side_of(one) not in ("", side) and one.bytes is not None
    ]
    if partners and side_of(partners[0]) in _BROADCAST_SIDES.get(join_type, ()):
        size = float(partners[0].bytes.sum()) if partners[0].bytes is not None else 0.0
        other = side_of(partners[0])
        line = source.spark(other, how) if source is not None and how else ""
        if 0 < size <= _BROADCAST and source is not None and line:
            found.append(
                Remedy(
                    f"The {other} side is small ({show_bytes(size)} in the shuffle): send it to every executor, and "
                    f"nothing is shuffled by the key.{source.explanation}",
                    line,
                )
            )
    if verdict.would_split and not verdict.on:
        found.append(Remedy("Adaptive execution would have split this partition: switch it on.", SWITCH_ON))
    elif verdict.would_split and "needs the same keys" in verdict.reason:
        found.append(
            Remedy(
                "Let adaptive execution split the join and shuffle once more for the operator above (Spark 3.3 and "
                "newer).",
                'spark.conf.set("spark.sql.adaptive.forceOptimizeSkewedJoin", "true")',
            )
        )
    elif verdict.would_split:
        found.append(
            Remedy(
                "Adaptive execution would have split this partition: allow it.",
                'spark.conf.set("spark.sql.adaptive.skewJoin.enabled", "true")',
            )
        )
    by_plan = (
        "Join by a plan: the rows of a hot key are cut into pieces that go where there is room; the answer is the same."
    )
    line = source.keyspread(how) if source is not None and how else ""
    if source is not None and line:
        found.append(Remedy(f"{by_plan}{source.explanation}", line))
    elif not how:
        found.append(
            Remedy(
                f"There is no line to paste: keyspread.spark.join has no join of the type {join_type}. Spread the hot "
                "keys by hand, or write the subquery as a semi or left join first."
            )
        )
    elif source is None:
        found.append(Remedy(f"{by_plan} Use keyspread.spark.join; the log does not show all of the join's keys."))
    else:
        found.append(
            Remedy(
                "keyspread.spark.join takes null as equal to null in all key columns or in none, and this join does in "
                "some: replace the nulls of those columns by a value that does not occur, and join by a plan."
            )
        )
    return tuple(found)
