"""Which operator reads an exchange, in the words of its user: `FlatMapGroupsInPandas` is `applyInPandas`.

Which exchanges a stage reads, and by which key columns.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from keyspread.diagnosis.log import expressions
from keyspread.diagnosis.log.application import (
    OUTPUT_ROWS,
    PYTHON_START,
    WRITE_METRICS,
    Application,
    Floats,
    Ints,
    Node,
    Query,
    Stage,
)
from keyspread.diagnosis.stages.keys import KeyPart, definitions_below, key_parts

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
        match = _match(node)
        if match is None:
            continue
        group, name = match
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
        name = _JOIN_TYPES.get(part.split("(")[0].strip().lower())
        if name:
            return name
        if start >= 0 and not part.startswith("["):
            words = re.findall(r"[A-Z][a-z]+", part.split("(")[0].removesuffix("Join"))
            return " ".join(words).lower() or "unknown"
    return ""


def _above(chain: tuple[Node, ...], keys: list[str]) -> str:
    """Return the first operator above that needs rows with the same keys in one place."""
    for node in chain:
        match = _match(node)
        # `id#1` is not in `paid#12`.
        shown = (re.search(rf"(?<![\w.]){re.escape(key)}(?![\w#])", node.text) for key in keys)
        if match is None or not any(shown):
            continue
        kind, name = match
        functions = _functions(node.text) if kind == AGGREGATE else ()
        return functions[0] if functions else name
    return ""


@dataclass(frozen=True)
class Shuffle:
    """An exchange as the stage that reads it sees it."""

    query: Query
    exchange: Node
    kind: str
    key: tuple[KeyPart, ...]
    partitions: int | None
    consumer: Consumer
    rows: Floats | None
    bytes: Floats | None

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the key for people: `customer`, `bucket (customer % 50)`."""
        return tuple(part.shown for part in self.key)

    @property
    def is_keyed(self) -> bool:
        """Tell whether rows are distributed by a key that the log names."""
        return self.kind in ("hash", "range") and bool(self.key)


class ShuffleIndex:
    """The exchanges of all plans, by the accumulators that lead to them."""

    def __init__(self, application: Application, stages: Iterable[Stage], queries: Iterable[Query] | None) -> None:
        self._stages: dict[int, list[Stage]] = {}
        for stage in stages:
            self._stages.setdefault(stage.id, []).append(stage)
        self._readers: dict[int, list[tuple[Query, Node]]] = {}
        self._writers: dict[int, list[tuple[Query, Node]]] = {}
        self._caches: dict[int, list[tuple[Query, Node]]] = {}
        self._python: list[tuple[int, ...]] = []
        for query in application.queries.values() if queries is None else queries:
            for node in query.plan.nodes if query.plan else ():
                self._add(query, node)

    def _add(self, query: Query, node: Node) -> None:
        metrics = node.metrics
        if node.is_exchange:
            if "records read" in metrics:
                self._readers.setdefault(metrics["records read"], []).append((query, node))
            for name in WRITE_METRICS:
                if name in metrics:
                    self._writers.setdefault(metrics[name], []).append((query, node))
        elif "InMemoryTableScan" in node.name and OUTPUT_ROWS in metrics:
            self._caches.setdefault(metrics[OUTPUT_ROWS], []).append((query, node))
        elif PYTHON_START[0] in metrics:
            self._python.append(tuple(metrics[name] for name in PYTHON_START if name in metrics))

    def of(self, stage: Stage, chosen: Ints) -> list[Shuffle]:
        """Return the exchanges that a stage reads, with the rows and bytes of the chosen task attempts."""
        exchanges: dict[int, tuple[Query, Node]] = {}
        for accumulator in (stage.tasks.accumulators | stage.accumulators) & self._readers.keys():
            query, node = self._own(stage, self._readers[accumulator])
            exchanges[id(node)] = (query, node)
        if not exchanges:  # before Spark 3.0, only the stage that writes an exchange names it
            parents = [parent for id in stage.parents for parent in self._stages.get(id, ())]
            for accumulator in set().union(*(parent.accumulators for parent in parents)) & self._writers.keys():
                query, node = self._own(stage, self._writers[accumulator])
                exchanges[id(node)] = (query, node)
        shuffles = [self._shuffle(stage, query, node, chosen) for query, node in exchanges.values()]
        return shuffles or self._cached(stage, chosen)

    def _cached(self, stage: Stage, chosen: Ints) -> list[Shuffle]:
        """Return the exchanges behind a cache: its partitions are as uneven as when it was filled."""
        shuffles = []
        for accumulator in stage.tasks.accumulators & self._caches.keys():
            query, scan = self._own(stage, self._caches[accumulator])
            rows = stage.tasks.measured(accumulator)
            for node in _exchanges_below(scan):
                shuffle = self._shuffle(stage, query, node, chosen)
                consumer = cached_consumer(node, scan)
                rows_of_cache = None if rows is None else rows[chosen].astype(np.float64)
                shuffles.append(replace(shuffle, consumer=consumer, rows=rows_of_cache, bytes=None))
        return shuffles

    def python_start(self, stage: Stage, chosen: Ints) -> Floats:
        """Return the seconds in which each task waited for a Python worker that had to start, 0 where none had to."""
        waited = np.zeros(len(chosen))
        for accumulators in self._python:
            parts = [stage.tasks.measured(accumulator) for accumulator in accumulators]
            if parts[0] is None:
                continue
            # A worker that is used again has no start; what is called its initialization is the time it was idle.
            fresh = parts[0][chosen] > 0
            waited += fresh * np.sum([part[chosen] for part in parts if part is not None], axis=0) / 1e3
        return waited

    @staticmethod
    def _own(stage: Stage, candidates: list[tuple[Query, Node]]) -> tuple[Query, Node]:
        """Return the exchange of the stage's own query: a write repeats the plan of the query that it writes."""
        return next((candidate for candidate in candidates if candidate[0].id == stage.execution), candidates[0])

    def _shuffle(self, stage: Stage, query: Query, node: Node, chosen: Ints) -> Shuffle:
        kind, arguments, partitions = expressions.partitioning(node.text)
        key = key_parts(arguments, definitions_below(node), expressions.sort_orders(node.text))
        sizes = [stage.tasks.measured(node.metrics.get(name, -1)) for name in ("local bytes read", "remote bytes read")]
        known = [size for size in sizes if size is not None]
        rows = stage.tasks.measured(node.metrics.get("records read", -1))
        return Shuffle(
            query=query,
            exchange=node,
            kind=kind,
            key=key,
            partitions=partitions,
            consumer=consumer_of(_reader(stage, query, node)),
            rows=None if rows is None else rows[chosen].astype(np.float64),
            bytes=np.sum(known, axis=0)[chosen].astype(np.float64) if known else None,
        )


def _reader(stage: Stage, query: Query, exchange: Node) -> Node:
    """Return the place in the plan from which the stage reads an exchange: it may be read again elsewhere in the plan.

    A ReusedExchange has no accumulators. Which one it is shows in the operators above: the stage has run them.
    """
    reused = [node for node in query.plan.reused if node.plan_id == exchange.plan_id] if query.plan else []
    if not reused or not exchange.plan_id:
        return exchange
    ran = stage.accumulators | stage.tasks.accumulators

    def operators_run(place: Node) -> int:
        return sum(not ran.isdisjoint(node.metrics.values()) for node in within_stage(place))

    return max((exchange, *reused), key=operators_run)


def _exchanges_below(scan: Node) -> Iterator[Node]:
    """Yield the exchanges that feed a cache, without those behind them."""
    waiting = list(scan.children)
    while waiting:
        node = waiting.pop()
        if node.is_exchange:
            yield node
        elif "InMemoryTableScan" not in node.name:
            waiting += node.children
