"""What adaptive execution did about a skewed stage, and why not more. It looks at bytes, never at rows or time."""

import re
from dataclasses import dataclass

import numpy as np

from keyspread.diagnosis.log.application import Application
from keyspread.diagnosis.stages.operators import CACHE, JOIN
from keyspread.diagnosis.stages.shuffles import Shuffle

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
