"""Which exchanges a stage reads, and by which key columns."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from keyspread.diagnosis.log import expressions
from keyspread.diagnosis.log.application import Application, Query, Stage
from keyspread.diagnosis.log.plan_tree import OUTPUT_ROWS, PYTHON_START, WRITE_METRICS, Node
from keyspread.diagnosis.log.tasks import Floats, Ints
from keyspread.diagnosis.stages.key_parts import KeyPart, definitions_below, key_parts
from keyspread.diagnosis.stages.operators import Consumer, cached_consumer, consumer_of, within_stage


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
        found: dict[int, tuple[Query, Node]] = {}
        for accumulator in (stage.tasks.accumulators | stage.accumulators) & self._readers.keys():
            query, node = self._own(stage, self._readers[accumulator])
            found[id(node)] = (query, node)
        if not found:  # before Spark 3.0, only the stage that writes an exchange names it
            parents = [one for id in stage.parents for one in self._stages.get(id, ())]
            for accumulator in set().union(*(one.accumulators for one in parents)) & self._writers.keys():
                query, node = self._own(stage, self._writers[accumulator])
                found[id(node)] = (query, node)
        shuffles = [self._shuffle(stage, query, node, chosen) for query, node in found.values()]
        return shuffles or self._cached(stage, chosen)

    def _cached(self, stage: Stage, chosen: Ints) -> list[Shuffle]:
        """Return the exchanges behind a cache: its partitions are as uneven as when it was filled."""
        found = []
        for accumulator in stage.tasks.accumulators & self._caches.keys():
            query, scan = self._own(stage, self._caches[accumulator])
            rows = stage.tasks.measured(accumulator)
            for node in _exchanges_below(scan):
                shuffle = self._shuffle(stage, query, node, chosen)
                consumer = cached_consumer(node, scan)
                rows_of_cache = None if rows is None else rows[chosen].astype(np.float64)
                found.append(replace(shuffle, consumer=consumer, rows=rows_of_cache, bytes=None))
        return found

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
        return next((one for one in candidates if one[0].id == stage.execution), candidates[0])

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
