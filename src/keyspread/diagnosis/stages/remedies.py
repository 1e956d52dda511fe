"""What to do about a skewed stage: what adaptive execution did and why not more, then the lines of code to paste.

Adaptive execution looks at bytes, never at rows or time.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from keyspread.diagnosis.log.application import Application
from keyspread.diagnosis.stages.finding import Remedy
from keyspread.diagnosis.stages.keys import (
    PLACEHOLDER,
    JoinSource,
    KeyPart,
    join_source,
    key_source,
    listed,
    new_names,
    quoted_text,
    sort_source,
    what_placeholder_means,
)
from keyspread.diagnosis.stages.shuffles import (
    AGGREGATE,
    CACHE,
    COGROUP,
    GROUPS,
    JOIN,
    REPARTITION,
    SORT,
    STATE,
    WINDOW,
    WRITE,
    Shuffle,
)

_PREFIX = "spark.sql.adaptive."
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
# The sides of a join that may be cut without a wrong answer: the other side is then read several times.
_SPLIT_SIDES = {
    "inner": ("left", "right"),
    "cross": ("left", "right"),
    "left outer": ("left",),
    "left semi": ("left",),
    "left anti": ("left",),
    "right outer": ("right",),
}


@dataclass(frozen=True)
class AdaptiveVerdict:
    """Whether adaptive execution was on, and what it did about the partition or why not more."""

    on: bool
    reason: str
    would_split: bool = False
    """True if it would have split the partition, had it been on."""

    def __str__(self) -> str:
        """Return the verdict in a few words."""
        return f"{'on' if self.on else 'off'}{'; ' if self.reason else ''}{self.reason}"


def judge(application: Application, shuffle: Shuffle) -> AdaptiveVerdict:
    """Return what adaptive execution did about an exchange whose busiest task lost time."""
    query, consumer = shuffle.query, shuffle.consumer

    def setting(name: str, default: str) -> str:
        return application.setting(_PREFIX + name, query) or default

    release = re.match(r"(\d+)\.(\d+)", application.version)
    version = (int(release[1]), int(release[2])) if release else (0, 0)
    on = setting("enabled", "true" if version >= (3, 2) else "false").lower() == "true"
    if _acted(shuffle):
        return AdaptiveVerdict(True, "it split the partition")
    if 0 < version[0] < 3:  # there is nothing to switch on
        return AdaptiveVerdict(False, "")
    obstacle = _obstacle(shuffle)
    threshold = parse_bytes(setting("skewJoin.skewedPartitionThresholdInBytes", "256MB"))
    factor = _number(setting("skewJoin.skewedPartitionFactor", "5"), 5.0)
    size = median = 0.0
    if shuffle.bytes is not None and len(shuffle.bytes):
        size, median = float(shuffle.bytes.max()), float(np.median(shuffle.bytes))
    large = size > threshold and size > factor * median
    if not on:
        return AdaptiveVerdict(False, "", would_split=large and not obstacle and not consumer.needs_same_keys)
    if query.plan is None or not any("AdaptiveSparkPlan" in node.name for node in query.plan.nodes[:5]):
        return AdaptiveVerdict(True, "the plan of this query is not adaptive")
    if obstacle:
        return AdaptiveVerdict(True, obstacle)
    if setting("skewJoin.enabled", "true").lower() == "false":
        return AdaptiveVerdict(True, "spark.sql.adaptive.skewJoin.enabled is false", would_split=large)
    if size and size <= threshold:
        shown = "256 MB" if threshold == 2**28 else show_bytes(threshold)
        return AdaptiveVerdict(True, f"{show_bytes(size)} < {shown}: not split")
    if size and size <= factor * median:
        return AdaptiveVerdict(True, f"{size / median:.1f} × the median < {factor:g} ×: not split")
    if consumer.needs_same_keys:
        return AdaptiveVerdict(True, f"the {consumer.needs_same_keys} above needs the same keys", would_split=True)
    return AdaptiveVerdict(True, "it did not split the partition; the log does not say why")


def _acted(shuffle: Shuffle) -> bool:
    node = shuffle.consumer.node
    if node is not None and "skew=true" in node.name + node.text.split("[")[0]:
        return True
    # 3.0 and 3.1 call it CustomShuffleReader.
    return any("ShuffleRead" in reader.name and "skewed" in reader.text for reader in shuffle.consumer.chain)


def _obstacle(shuffle: Shuffle) -> str:
    """Return why adaptive execution never splits this operator, whatever its size."""
    consumer, side = shuffle.consumer, side_of(shuffle)
    if consumer.kind == CACHE:
        return "it does not change the partitions of a cache"
    if consumer.kind != JOIN:
        return "it splits only joins"
    if consumer.join_type == "full outer":
        return "full outer is never split"
    sides = _SPLIT_SIDES.get(consumer.join_type or "inner")
    if sides is None:
        return f"a join of the type {consumer.join_type} is never split"
    return "" if side in ("", *sides) else f"of a {consumer.join_type} join only the {sides[0]} side is split"


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


def _number(text: str, default: float) -> float:
    try:
        return float(text)
    except ValueError:
        return default


_BROADCAST = 100e6
"""Bytes up to which the other side of a join is worth a broadcast."""
_JOIN_NAMES = {
    "inner": "inner",
    "cross": "inner",
    "left outer": "left",
    "right outer": "right",
    "full outer": "full",
    "left semi": "semi",
    "left anti": "anti",
}
# What to do about an operator on one DataFrame, best first: a sentence, and the line of code.
_SPREAD = "keyspread.spark.spread({df}, {key}, workers={workers})"
_AGGREGATE = "keyspread.spark.aggregate({df}, {key}, MyOperator(), workers={workers})"
_OF_KEY = {
    GROUPS: (
        (
            "If the function can be computed from parts, write it as an Operator: a hot key is then worked on by "
            "several workers, and the parts are merged.",
            _AGGREGATE,
        ),
        (
            "If it works row by row and needs no groups, spread the rows and use mapInPandas.",
            f"{_SPREAD}.mapInPandas(f, schema)",
        ),
    ),
    AGGREGATE: (
        (
            "{collects}. Fold what you do with the rows into an Operator: a hot key is then worked on by several "
            "workers.",
            _AGGREGATE,
        ),
    ),
    WINDOW: (
        (
            "If the time goes into work behind the window (functions, Python, a write), spread its rows first.",
            _SPREAD,
        ),
        (
            "The window itself needs all rows of a key in one task. Filter before it, or add a column to partitionBy "
            "(a day, a type); for 'top n per key', rank within such pieces first.",
            "",
        ),
    ),
    WRITE: (
        ("The files are not partitioned by the key: spread the rows evenly over the writers.", _SPREAD),
        ("Spread the rows of a hot key over several writers, and keep small keys in few files.", "{for_write}"),
    ),
    STATE: (
        (
            "State of a key lives in one partition. Write the computation as an Operator: every micro-batch is then "
            "spread and merged. The session needs keyspread.spark.stream_settings({workers}).",
            _AGGREGATE,
        ),
    ),
    SORT: (
        (
            "Rows with the same sort key fall into one range. Add a column that tells them apart, such as the position "
            "of a row.",
            "df.orderBy({order}, F.monotonically_increasing_id())",
        ),
    ),
    CACHE: (
        (
            "A cache keeps the partitions with which it was filled: spread the rows before they are cached.",
            f"{_SPREAD}.cache()",
        ),
    ),
    REPARTITION: (
        ("Spread the rows: the same number of them in every partition, each key in as few as possible.", _SPREAD),
    ),
}


def remedies(shuffle: Shuffle, verdict: AdaptiveVerdict, others: list[Shuffle], slots: int) -> tuple[Remedy, ...]:
    """Return what to do about a skewed exchange, best first. `others` are the exchanges that the stage reads too."""
    kind = shuffle.consumer.kind
    if kind == JOIN:
        return tuple(_of_join(shuffle, verdict, others))
    if kind == COGROUP:
        return (_of_cogroup(shuffle.key),)
    fixes = _of_key(kind, shuffle, shuffle.partitions or slots)
    if any(part.is_time_window for part in shuffle.key):  # the plan shows it in a form that nobody would type
        return (Remedy(f"{fixes[0].text} Pass the time window as window= and time= of aggregate."),)
    meaning = what_placeholder_means(shuffle.key, "sorts" if kind == SORT else "groups")
    return tuple(replace(fix, text=fix.text + meaning) if re.search(r"\bkey\b", fix.code) else fix for fix in fixes)


def _of_key(kind: str, shuffle: Shuffle, workers: int) -> list[Remedy]:
    """Return what to do about an operator on one DataFrame."""
    lists = [name for name in shuffle.consumer.functions if name.startswith("collect_")]
    words = {
        "df": {WINDOW: "windowed", STATE: "stream"}.get(kind, "df"),
        "key": key_source(shuffle.key),
        "workers": workers,
        "order": sort_source(shuffle.key),
        "for_write": _for_write(shuffle.key),
        "collects": f"{lists[0]} builds one list per key in one task" if lists else "One task aggregates each key",
    }
    fixes = [Remedy(text.format(**words), code.format(**words)) for text, code in _OF_KEY[kind]]
    # Only without partitionBy there is no folder per key, and the rows may go anywhere.
    return fixes[1:] if kind == WRITE and shuffle.consumer.by_folder is not False else fixes


def _for_write(key: tuple[KeyPart, ...]) -> str:
    """Return the call of for_write, which takes names only: a computed key becomes a column and is dropped again."""
    source = key_source(key)
    if key and not any(part.is_computed for part in key):
        return f"keyspread.spark.for_write(df, {source})"
    sources = [part.source() for part in key] if source != PLACEHOLDER else [PLACEHOLDER]
    names = list(itertools.islice(new_names(None), len(sources)))
    columns = (value if value.startswith(("F.", PLACEHOLDER)) else f"F.col({value})" for value in sources)
    frame = "".join(f'.withColumn("{name}", {column})' for name, column in zip(names, columns, strict=True))
    quoted = ", ".join(f'"{name}"' for name in names)
    return f"keyspread.spark.for_write(df{frame}, {quoted if len(names) == 1 else f'[{quoted}]'}).drop({quoted})"


def _of_cogroup(key: tuple[KeyPart, ...]) -> Remedy:
    text = "If the function handles each left row by itself, the left rows of a hot key can be cut into pieces."
    if not key or not all(part.has_name for part in key):
        return Remedy(f"{text} Use keyspread.spark.cogroup with per_left=True, by columns that hold the computed key.")
    on = listed([quoted_text(part.name) for part in key])
    return Remedy(text, f"keyspread.spark.cogroup(left, right, {on}, f, schema, per_left=True)")


def _of_join(shuffle: Shuffle, verdict: AdaptiveVerdict, others: list[Shuffle]) -> Iterator[Remedy]:
    join = shuffle.consumer.node
    source = join_source(join) if join is not None else None
    join_type = shuffle.consumer.join_type or "inner"
    how = _JOIN_NAMES.get(join_type, "")
    if source is not None and how:
        yield from _broadcast(shuffle, others, source, how)
    if verdict.would_split:
        yield _let_adaptive_split(verdict)
    by_plan = (
        "Join by a plan: the rows of a hot key are cut into pieces that go where there is room; the answer is the same."
    )
    line = source.keyspread(how) if source is not None and how else ""
    if source is not None and line:
        yield Remedy(f"{by_plan}{source.explanation}", line)
    elif not how:
        yield Remedy(
            f"There is no line to paste: keyspread.spark.join has no join of the type {join_type}. Spread the hot "
            "keys by hand, or write the subquery as a semi or left join first."
        )
    elif source is None:
        yield Remedy(f"{by_plan} Use keyspread.spark.join; the log does not show all of the join's keys.")
    else:
        yield Remedy(
            "keyspread.spark.join takes null as equal to null in all key columns or in none, and this join does in "
            "some: replace the nulls of those columns by a value that does not occur, and join by a plan."
        )


def _broadcast(shuffle: Shuffle, others: list[Shuffle], source: JoinSource, how: str) -> Iterator[Remedy]:
    """Yield Spark's own join if the other side is small and may be sent to every executor."""
    side, consumer = side_of(shuffle), shuffle.consumer
    sides = ((other, side_of(other)) for other in others if other.consumer.node is consumer.node)
    partner = next((other for other, its in sides if its not in ("", side) and other.bytes is not None), None)
    if partner is None or partner.bytes is None:
        return
    other, size = side_of(partner), float(partner.bytes.sum())
    cut = _SPLIT_SIDES.get(consumer.join_type or "inner", ())
    # Never the side whose rows must all appear: of an outer join, that which may be cut.
    if not cut or cut == (other,) or not 0 < size <= _BROADCAST:
        return
    line = source.spark(other, how)
    if line:
        yield Remedy(
            f"The {other} side is small ({show_bytes(size)} in the shuffle): send it to every executor, and nothing is "
            f"shuffled by the key.{source.explanation}",
            line,
        )


def _let_adaptive_split(verdict: AdaptiveVerdict) -> Remedy:
    if not verdict.on:
        text, setting = "Adaptive execution would have split this partition: switch it on.", "enabled"
    elif "needs the same keys" in verdict.reason:
        text = (
            "Let adaptive execution split the join and shuffle once more for the operator above (Spark 3.3 and newer)."
        )
        setting = "forceOptimizeSkewedJoin"
    else:
        text, setting = "Adaptive execution would have split this partition: allow it.", "skewJoin.enabled"
    return Remedy(text, f'spark.conf.set("{_PREFIX}{setting}", "true")')
