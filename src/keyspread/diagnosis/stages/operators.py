"""Which operator reads an exchange, in the words of its user: `FlatMapGroupsInPandas` is `applyInPandas`."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from keyspread.diagnosis.log import expressions
from keyspread.diagnosis.log.plan_tree import Node

JOIN, WINDOW, GROUPS, AGGREGATE, WRITE, REPARTITION, SORT, STATE, CACHE, COGROUP = (
    "join",
    "window",
    "groups",
    "aggregate",
    "write",
    "repartition",
    "sort",
    "state",
    "cache",
    "cogroup",
)

# The first that matches, by the name of the operator; accelerators put Gpu, Photon or Comet before it.
_CONSUMERS = (
    (r"StreamingSymmetricHashJoin", STATE, "stream-stream join"),
    (r"SortMergeJoin", JOIN, "sort-merge join"),
    (r"(?<!Broadcast)HashJoin", JOIN, "shuffled hash join"),
    (r"FlatMapCoGroupsIn(Pandas|Arrow)", COGROUP, "cogroup.applyIn{0}"),
    (r"FlatMapGroupsIn(Pandas|Arrow)WithState|FlatMapGroupsWithState", STATE, "applyInPandasWithState"),
    (r"FlatMapGroupsIn(Pandas|Arrow)", GROUPS, "applyIn{0}"),
    (r"TransformWithState", STATE, "transformWithState"),
    (r"StateStore(?:Save|Restore)|StreamingDeduplicate|SessionWindowStateStore", STATE, "stateful aggregate"),
    (r"AggregateInPandas|ArrowAggregatePython", AGGREGATE, "aggregate (pandas)"),
    (r"WindowInPandas|ArrowWindowPython", WINDOW, "window (pandas)"),
    (r"MapGroups|CoGroup", GROUPS, "mapGroups"),
    (r"Window$", WINDOW, "window"),
    (r"Aggregate|GroupingAgg", AGGREGATE, "aggregate"),
)
_WRITE = re.compile(
    r"InsertInto|WriteFiles|AppendData|Overwrite|SaveInto|CreateDataSourceTable|WriteToDataSource|WriteDelta"
)
_STREAM_SINK = re.compile(r"MicroBatchWrite|ContinuousWrite|StreamingWrite")
_PYTHON = re.compile(r"MapIn(Pandas|Arrow)|(?:Arrow|Batch)EvalPython")
_JOIN_TYPES = {
    "inner": "inner",
    "cross": "cross",
    "leftouter": "left outer",
    "rightouter": "right outer",
    "fullouter": "full outer",
    "leftsemi": "left semi",
    "leftanti": "left anti",
}


@dataclass(frozen=True)
class Consumer:
    """What a stage does with the rows of an exchange."""

    kind: str
    name: str
    node: Node | None
    functions: tuple[str, ...] = ()
    join_type: str = ""
    by_folder: bool | None = None
    """Whether a write has a folder per value of some columns (partitionBy); None if the plan does not say."""
    needs_same_keys: str = ""
    """The operator above a join that relies on how the join's output is distributed."""
    chain: tuple[Node, ...] = field(default=(), repr=False)
    """The operators of the same stage above the exchange, nearest first."""


def consumer_of(exchange: Node, below: Node | None = None) -> Consumer:
    """Return the operator that reads an exchange; `below` looks no further up than there."""
    chain = tuple(itertools.takewhile(lambda node: node is not below, within_stage(exchange)))
    kind, keys, _ = expressions.partitioning(exchange.text)
    for place, node in enumerate(chain):
        found = _match(node)
        if found is None:
            continue
        group, name = found
        if group == AGGREGATE:
            if "keys=[]" in node.text:
                continue  # a global aggregate needs no keys: it only folds what this stage has
            functions = _functions(node.text)
            shown = name if "(" in name or not functions else f"{name} ({', '.join(functions[:3])})"
            if any("StateStore" in one.name for one in chain[place:]):  # the rows of a micro-batch are folded first
                return Consumer(STATE, f"stateful {shown}", node, functions, chain=chain)
            return Consumer(group, shown, node, functions, chain=chain)
        if group == JOIN:
            how = _join_type(node.text)
            shown = name if how in ("", "inner") else f"{name}, {how}"
            above = _above(chain[place + 1 :], keys)
            return Consumer(group, shown, node, join_type=how, needs_same_keys=above, chain=chain)
        return Consumer(group, name, node, chain=chain)
    if kind == "range":
        return Consumer(SORT, "sort", next((node for node in chain if node.name == "Sort"), None), chain=chain)
    if any(_STREAM_SINK.search(node.text) for node in chain):
        return Consumer(REPARTITION, "repartition in a stream", None, chain=chain)
    if any(_WRITE.search(node.name) for node in chain):
        return Consumer(WRITE, "repartition before a write", None, by_folder=_by_folder(chain), chain=chain)
    for node in chain:
        python = _PYTHON.search(node.name)
        if python:
            what = f"mapIn{python[1]}" if python[1] else "a Python function"
            return Consumer(REPARTITION, f"repartition before {what}", node, chain=chain)
    return Consumer(REPARTITION, "repartition", None, chain=chain)


def cached_consumer(exchange: Node, scan: Node) -> Consumer:
    """Return what filled a cache from an exchange: the cache keeps its partitions."""
    filled = consumer_of(exchange, below=scan)
    return replace(filled, kind=CACHE, name=f"cached {filled.name}", chain=(scan, *within_stage(scan)))


def within_stage(exchange: Node) -> Iterator[Node]:
    """Yield the operators above an exchange that run in the stage which reads it, nearest first."""
    for node in exchange.ancestors():
        if node.is_exchange or "BroadcastExchange" in node.name:
            return
        yield node


def _match(node: Node) -> tuple[str, str] | None:
    for pattern, kind, name in _CONSUMERS:
        match = re.search(pattern, node.name.split("(")[0].strip())
        if match:
            return kind, name.format(*(group or "" for group in match.groups()))
    return None


def _by_folder(chain: tuple[Node, ...]) -> bool | None:
    """Return whether files are written with partitionBy: `InsertInto… file:/out, false, [day#3], Parquet, …`."""
    for node in chain:
        match = re.search(r"InsertIntoHadoopFsRelationCommand [^,]+, (?:true|false), (.)", node.text)
        if match:
            return match[1] == "["
    return None


def _functions(text: str) -> tuple[str, ...]:
    """Return the functions of an aggregate: `functions=[merge_sum(a#1), collect_list(b#2, 0, 0)]`."""
    start = text.find("functions=[")
    if start < 0:
        return ()
    calls = expressions.split_arguments(expressions.bracketed(text, start + len("functions=")))
    names = (re.sub(r"^(?:partial|merge|finalmerge)_", "", call.split("(")[0].strip()) for call in calls)
    return tuple(dict.fromkeys(name for name in names if name))


def _join_type(text: str) -> str:
    """Return the type of a join: `SortMergeJoin [a#1], [b#2], FullOuter, (c#3 > 1)` -> `full outer`.

    One that has no name here is returned in words: `ExistenceJoin(exists#9)` -> `existence`.
    """
    start = text.find("[")
    for part in expressions.split_arguments(text[start:] if start >= 0 else text):
        found = _JOIN_TYPES.get(part.split("(")[0].strip().lower())
        if found:
            return found
        if start >= 0 and not part.startswith("["):
            words = re.findall(r"[A-Z][a-z]+", part.split("(")[0].removesuffix("Join"))
            return " ".join(words).lower() or "unknown"
    return ""


def _above(chain: tuple[Node, ...], keys: list[str]) -> str:
    """Return the first operator above that needs rows with the same keys in one place."""
    for node in chain:
        found = _match(node)
        # `id#1` is not in `paid#12`.
        shown = (re.search(rf"(?<![\w.]){re.escape(key)}(?![\w#])", node.text) for key in keys)
        if found is None or not any(shown):
            continue
        kind, name = found
        functions = _functions(node.text) if kind == AGGREGATE else ()
        return functions[0] if functions else name
    return ""
