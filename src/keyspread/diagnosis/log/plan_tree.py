"""A physical plan as the log holds it: a tree of operators, each with its text and its accumulators.

Trees are walked without recursion: a plan may be thousands of operators deep.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

OUTPUT_ROWS = "number of output rows"
WRITE_METRICS = ("shuffle records written", "shuffle bytes written", "data size")
"""Metrics of an exchange that the stage which writes it adds to."""
PYTHON_START = ("time to start Python workers", "time to initialize Python workers")
"""Metrics of an operator in Python, in milliseconds; Spark 3.5 does not have them."""
_PLAN_ID = re.compile(r"\[(?:plan_id=|id=#)(\d+)\]")


@dataclass(eq=False)
class Node:
    """One operator of a plan."""

    name: str
    text: str
    metrics: dict[str, int]
    """Accumulator of each metric, by the metric's name."""
    parent: "Node | None" = None
    children: "list[Node]" = field(default_factory=list)

    def ancestors(self) -> "Iterator[Node]":
        """Yield the operators above, nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def below(self) -> "Iterator[Node]":
        """Yield this operator and all below it, parents before children."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children)

    @property
    def is_exchange(self) -> bool:
        """Tell whether this is a shuffle, of Spark or of an accelerator."""
        return "Exchange" in self.name and "Broadcast" not in self.name and "Reused" not in self.name

    @property
    def plan_id(self) -> str:
        """Return the number that Spark gives to an exchange; a ReusedExchange shows that of the exchange it reads."""
        match = _PLAN_ID.search(self.text)
        return match[1] if match else ""


class PlanTree:
    """All operators of a plan, parents before children."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.nodes = list(root.below())
        self.exchanges = [node for node in self.nodes if node.is_exchange]
        self.reused = [node for node in self.nodes if "ReusedExchange" in node.name]

    @classmethod
    def parse(cls, info: Any) -> "PlanTree":
        """Return the tree of a `sparkPlanInfo`. Raise a TypeError, KeyError or ValueError if it is none."""
        root = _node(info, None)
        waiting = [(root, info)]
        while waiting:
            node, source = waiting.pop()
            for child in source.get("children") or ():
                below = _node(child, node)
                node.children.append(below)
                waiting.append((below, child))
        return cls(root)


def _node(info: Any, parent: Node | None) -> Node:
    metrics: dict[str, int] = {}
    for metric in info.get("metrics") or ():
        # Spark 2.x wrote 'data size total (min, med, max)', and repeated a name for each side of a join.
        name = str(metric["name"]).split(" total (")[0]
        metrics.setdefault(name, int(metric["accumulatorId"]))
    return Node(str(info["nodeName"]), str(info["simpleString"]), metrics, parent)
