"""A state machine for operators on a stream: random schedules of batches and faults, in this process, without Spark.

It drives the code that runs on the executors (`packer`, `processor` with its `StateMerger`, `unpacker`, and the
operator's `make`, `fold` and `finish`) and compares what it emits with a model in plain Python. `FakeSpark` is a fake
of what Spark does around that code: it hands rows to workers, drops late ones, keeps versions of the state, calls
timers. It keeps to Spark's contract: a batch reads the versions that the last committed batch wrote, and a batch that
fails, however many of its writes were done, starts again from those.

    ./dev python tests/spark/streaming/stream_machine.py --runs 5000 --seed 0

prints the number of runs and of what they tried.
"""

import argparse
import datetime
import math
import time
from collections import Counter
from types import SimpleNamespace
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from pyspark import TaskContext
from pyspark.sql import Row

from keyspread import ColumnOperator, Operator, hash_keys
from keyspread.spark.aggregation.column_states import ColumnStates
from keyspread.spark.aggregation.operator_states import OperatorStates
from keyspread.spark.aggregation.parameters import parameters_of
from keyspread.spark.routing.tags import tags_of
from keyspread.spark.streaming import window_entries
from keyspread.spark.streaming.blobs import StateError
from keyspread.spark.streaming.state import StateRules, packer, processor, unpacker

WINDOW = 10  # seconds
DELAY = 5  # of the watermark, in seconds
ZONES = ["UTC", "Europe/Berlin", "America/New_York"]
TRIED = Counter()


class Reach(Operator):
    """Count, sum and the values that are not null, with any state; subclasses say how it is stored."""

    schema = "n bigint, total bigint, values array<bigint>"
    batches = "arrow"

    def __init__(self, scale=1):
        self.scale = scale

    def zero(self):
        return {"n": 0, "total": None, "values": []}

    def update(self, state, rows):
        values = [value * self.scale for value in rows["value"].to_pylist() if value is not None]
        return self.merge(state, {"n": rows.num_rows, "total": sum(values) if values else None, "values": values})

    def merge(self, state, other):
        totals = [one["total"] for one in (state, other) if one["total"] is not None]
        return {
            "n": state["n"] + other["n"],
            "total": sum(totals) if totals else None,
            "values": [*state["values"], *other["values"]],
        }

    def finish(self, state):
        return {**state, "values": sorted(state["values"])}


class TypedReach(Reach):
    """The same; its state is stored as columns."""

    state = "n bigint, total bigint, values array<bigint>"


class ColumnReach(ColumnOperator):
    """The same by column: a state per row, so that keys are there twice, and merged keys in another order."""

    state = schema = TypedReach.state

    def __init__(self, scale=1):
        self.scale = scale

    def partial(self, rows, key):
        values = [None if value is None else value * self.scale for value in rows["value"].to_pylist()]
        states = [[1] * len(values), values, [[] if value is None else [value] for value in values]]
        return pa.table([*rows.select(key).columns, *states], names=[*key, *FIELDS.names])

    def merge(self, states, key):
        groups = {}
        for at, row in enumerate(states.to_pylist()):
            groups.setdefault(repr([_same(row[name]) for name in key]), []).append((at, row))
        assert all(len(group) > 1 for group in groups.values())
        found = list(reversed(groups.values()))
        totals = [[row["total"] for _, row in group if row["total"] is not None] for group in found]
        merged = [
            [sum(row["n"] for _, row in group) for group in found],
            [sum(one) if one else None for one in totals],
            [[value for _, row in group for value in row["values"]] for group in found],
        ]
        heads = states.select(key).take([group[0][0] for group in found])
        return pa.table([*heads.columns, *map(pa.array, merged, FIELDS.types)], names=[*key, *FIELDS.names])

    def finish(self, states, key):
        values = pa.array([sorted(one) for one in states["values"].to_pylist()], FIELDS.field("values").type)
        backwards = list(reversed(range(states.num_rows)))
        return states.drop_columns("values").append_column("values", values).take(backwards)


FIELDS = pa.schema([("n", pa.int64()), ("total", pa.int64()), ("values", pa.list_(pa.int64()))])


def moment(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


# Kinds of keys: values as a user has them, and the Arrow type with which Spark hands them over in a session.
KEYS = {
    "text": ([None, "", "hot", "a", "b"], lambda zone: pa.string()),
    "large text": ([None, "hot", "a"], lambda zone: pa.large_string() if zone != "UTC" else pa.string()),
    "time": ([None, moment(0), moment(3600)], lambda zone: pa.timestamp("us", zone)),
    "double": ([None, 0.0, 1.5, math.nan], lambda zone: pa.float64()),
    "struct": (
        [None, {"x": 1, "at": None}, {"x": 1, "at": moment(7)}, {"x": None, "at": moment(7)}],
        lambda zone: pa.struct([("x", pa.int64()), ("at", pa.timestamp("us", zone))]),
    ),
}


class CrashError(Exception):
    """The executor or the driver died here."""


class FakeHandle:
    """A fake of the handle and the map state of one state partition, as one batch sees them."""

    def __init__(self, entries, timers):
        self.entries, self.timers = dict(entries), set(timers)

    def getMapState(self, name, key, value):  # noqa: N802
        return self

    def registerTimer(self, at):  # noqa: N802
        self.timers.add(at)

    def getValue(self, key):  # noqa: N802
        return self.entries.get(key)

    def updateValue(self, key, value):  # noqa: N802
        self.entries[key] = value

    def removeKey(self, key):  # noqa: N802
        del self.entries[key]

    def keys(self):
        return iter(list(self.entries))


class FakeSpark:
    """A fake of a query's run: the session, the versions of the state, the watermark. Nothing of Spark is used."""

    def __init__(self, workers, windowed, mode, operator, key):
        self.workers, self.windowed, self.mode, self.operator, self.key = workers, windowed, mode, operator, key
        self.versions = {partition: {0: ({}, frozenset())} for partition in range(workers)}
        self.committed = 0
        self.watermark = self.before = -math.inf
        self.start("UTC", True)

    def start(self, zone, nullable, operator=None, workers=None):
        """Start the query, perhaps in a session with other settings: everything but the checkpoint is new."""
        operator, workers = operator or self.operator, workers or self.workers
        kind = pa.field("key", KEYS[self.key][1](zone), nullable)
        bound = pa.timestamp("us", zone)
        keys = [*([pa.field("start", bound), pa.field("end", bound)] if self.windowed else []), kind]
        self.rows = pa.schema([pa.field("hash", pa.int64()), *keys, kind.with_name("k"), ("value", pa.int64())])
        if isinstance(operator, ColumnOperator):
            states = ColumnStates(operator, [field.name for field in keys], ["k", "value"], FIELDS, FIELDS)
        else:
            typed = FIELDS if operator.state is not None else None
            states = OperatorStates(operator, len(keys), ["k", "value"], typed, FIELDS)
        identity = {"aggregates": {"operator": "Reach", "parameters": parameters_of(operator)}, "workers": workers}
        rules = StateRules(states.fold, identity, workers, self.windowed, self.mode)
        self.pack, self.processor, self.finish = packer(rules, states.make), processor(rules), unpacker(states.finish)
        self.running = workers

    def batch(self, placed, crash_after=None):
        """Run the next batch: rows by worker. Return what it emits; if it fails, nothing is committed."""
        arrived = {}
        for rows in placed.values():
            for blobs in self.pack(iter(self._tables(rows))):
                for row in blobs.to_pylist():
                    if self.windowed and row["end"] <= self.before * 1e6:
                        continue  # late: Spark drops the blob by the end of its window
                    arrived.setdefault(row["tag"], []).append(Row(**row))
        emitted = []
        tags = tags_of(self.running)
        for partition in range(self.running):
            entries, timers = self.versions.setdefault(partition, {}).get(self.committed, ({}, frozenset()))
            handle = FakeHandle(entries, timers)
            self.processor.init(handle)
            with mock.patch.object(TaskContext, "get", lambda at=partition: SimpleNamespace(partitionId=lambda: at)):
                rows = arrived.get(tags[partition], [])
                if rows:
                    emitted += self.processor.handleInputRows((tags[partition],), iter(rows), None)
                for at in sorted(handle.timers):
                    if at <= self.watermark * 1000:
                        handle.timers.discard(at)
                        info = SimpleNamespace(getExpiryTimeInMs=lambda at=at: at)
                        emitted += self.processor.handleExpiredTimer((tags[partition],), None, info)
            self.processor.close()
            if partition == crash_after:
                raise CrashError  # the writes of the partitions before this one are done, the others are lost
            self.versions[partition][self.committed + 1] = (handle.entries, frozenset(handle.timers))
        out = pa.RecordBatch.from_pydict({"blob": pa.array([row.blob for row in emitted], pa.binary())})
        return [row for table in self.finish([out]) for row in self._named(table)]

    def close(self, partition, at):
        """Call the timer of the windows that end at a moment, in ms."""
        handle = FakeHandle(*self.versions[partition][self.committed])
        self.processor.init(handle)
        info = SimpleNamespace(getExpiryTimeInMs=lambda: at)
        return list(self.processor.handleExpiredTimer((tags_of(self.running)[partition],), None, info))

    def commit(self, latest):
        """End a batch that has written everything; the watermark of the next one follows the event time."""
        self.committed += 1
        self.before = self.watermark
        if latest is not None:
            self.watermark = max(self.watermark, latest - DELAY)

    def _tables(self, rows):
        """Return the rows of a worker as Spark hands them over: a row per window, in batches."""
        for begin in range(0, len(rows), 3):
            part = rows[begin : begin + 3]
            keys = [key for _, key, _ in part]
            hashes = [_hash(key) for key in keys]
            bounds = [(moment(at // WINDOW * WINDOW), moment(at // WINDOW * WINDOW + WINDOW)) for at, _, _ in part]
            columns = [hashes, *(zip(*bounds, strict=True) if self.windowed else []), keys, keys]
            columns.append([value for _, _, value in part])
            arrays = [pa.array(list(c), f.type) for c, f in zip(columns, self.rows, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.rows)

    def _named(self, table):
        names = [*(["start", "end"] if self.windowed else []), "key", "n", "total", "values"]
        return [dict(zip(names, row.values(), strict=True)) for row in table.to_pylist()]


def _hash(key):
    """Return a hash that is the same for equal keys; which one does not matter here."""
    return int(hash_keys([repr(_same(key))])[0])


def _same(key):
    """Return the key as the model knows it: NaN is equal to itself, and a moment is the same in every time zone."""
    if isinstance(key, datetime.datetime):
        return key.timestamp()
    return tuple(map(_same, key.values())) if isinstance(key, dict) else repr(key)


def _is_chunk(window):
    """Return whether an entry of the map state is a chunk: its key ends before it starts."""
    return window[1] < window[0]


class StreamMachine(RuleBasedStateMachine):
    """Rows in, totals or windows out: equal to the model after every batch, whatever happened before."""

    @initialize(
        workers=st.integers(1, 3),
        windowed=st.booleans(),
        update=st.booleans(),
        operator=st.sampled_from([Reach, TypedReach, ColumnReach]),
        key=st.sampled_from(sorted(KEYS)),
        chunk=st.sampled_from([1, 40, 100, window_entries.CHUNK_BYTES]),
    )
    def begin(self, workers, windowed, update, operator, key, chunk):
        self.chunks = mock.patch.object(window_entries, "CHUNK_BYTES", chunk)  # small, so that few keys fill many
        self.chunks.start()
        mode = "append" if windowed and not update else "update"
        self.operator = operator()
        self.spark = FakeSpark(workers, windowed, mode, self.operator, key)
        self.values = KEYS[key][0]
        self.model = {}  # (start of the window or None, key) -> values of all rows that count
        self.nullable = True
        TRIED["runs"] += 1

    @rule(
        data=st.data(),
        zone=st.sampled_from([None, *ZONES]),
        nullable=st.booleans(),
        rows=st.lists(st.tuples(st.integers(-40, 20), st.integers(0, 9)), max_size=8),
    )
    def batch(self, data, zone, nullable, rows):
        """Run a batch of rows, some late, of any size, on any workers; if it crashes, run it again.

        With a zone, the query is restarted before, in a session with that time zone; the key may become non-null.
        """
        if zone is not None:
            TRIED["restarts"] += 1
            self.nullable = nullable
            self.spark.start(zone, nullable)
        ahead = 100 if self.spark.watermark == -math.inf else int(self.spark.watermark)
        keys = self.values if self.nullable else self.values[1:]
        drawn = [(ahead + at, keys[n % len(keys)], None if n == 9 else n) for at, n in rows]
        for _ in range(data.draw(st.integers(0, 2), label="crashes")):
            TRIED["retries"] += 1
            with pytest.raises(CrashError):
                self.spark.batch(self._placed(data, drawn), data.draw(st.integers(0, self.spark.workers - 1)))
        self._done(self.spark.batch(self._placed(data, drawn)), drawn)

    @precondition(lambda self: self._stored())
    @rule(data=st.data())
    def damage(self, data):
        """A blob of the checkpoint is cut, changed or lost: the query says so instead of going on."""
        TRIED["damages"] += 1
        self.spark.start("UTC", True)
        self.nullable = True
        partition, window = data.draw(st.sampled_from(self._stored()))
        entries, _ = self.spark.versions[partition][self.spark.committed]
        intact = entries[window]
        blob = bytearray(intact[0])
        at = data.draw(st.integers(0, len(blob) - 1))
        cut = data.draw(st.booleans())
        entries[window] = (bytes(blob[:at]) if cut else bytes([*blob[:at], blob[at] ^ 0x20, *blob[at + 1 :]]),)
        if _is_chunk(window) and data.draw(st.booleans(), label="lost"):
            del entries[window]
        message = "the state in the checkpoint (cannot be read|was not written by this version of keyspread)"
        self._fails(partition, window, message)
        entries[window] = intact

    @precondition(lambda self: self._stored())
    @rule(data=st.data())
    def another_query(self, data):
        """A query with another parameter of the operator does not resume from this state."""
        TRIED["other queries"] += 1
        self.spark.start("UTC", True, type(self.operator)(scale=2))
        roots = [one for one in self._stored() if not _is_chunk(one[1])]
        self._fails(*data.draw(st.sampled_from(roots)), r"parameters.*'scale': '1'.*'scale': '2'")
        self.spark.start("UTC", True)
        self.nullable = True

    def _fails(self, partition, window, message):
        """Send every key into that window, or into the totals, so that the state is read; or close the window."""
        chunk, start = _is_chunk(window), window[0]
        if self.spark.windowed and start + WINDOW * 1_000_000 <= self.spark.before * 1e6:
            return  # it is over: its rows would be late
        TRIED["refusals"] += 1
        rows = {0: [(start // 1_000_000, key, 1) for key in self.values]}
        before = {p: dict(v) for p, v in self.spark.versions.items()}
        # In append mode a chunk is read when its window closes.
        closes = chunk and self.spark.mode == "append"
        end = (start // 1_000_000 + WINDOW) * 1000
        with pytest.raises(StateError, match=message) as caught:
            self.spark.close(partition, end) if closes else self.spark.batch(rows)
        assert "\n" not in str(caught.value)
        self.spark.versions = before

    def _stored(self):
        return [
            (partition, window)
            for partition, versions in self.spark.versions.items()
            for window in versions.get(self.spark.committed, ({}, ()))[0]
        ]

    def _placed(self, data, rows):
        """Put every row on some worker: which one must not matter, nor how many input partitions there were."""
        chosen = data.draw(st.lists(st.integers(0, self.spark.workers - 1), min_size=len(rows), max_size=len(rows)))
        placed = {}
        for row, worker in zip(rows, chosen, strict=True):
            placed.setdefault(worker, []).append(row)
        return placed

    def _done(self, emitted, rows):
        """Compare what the batch emitted with the model, and commit it."""
        TRIED["batches"] += 1
        spark, changed = self.spark, set()
        for at, key, value in rows:
            start = at // WINDOW * WINDOW if spark.windowed else None
            if start is not None and start + WINDOW <= spark.before:
                TRIED["late rows"] += 1
                continue
            group = (start, _same(key))
            self.model.setdefault(group, []).append(value)
            changed.add(group)
        closed = {group for group in self.model if group[0] is not None and group[0] + WINDOW <= spark.watermark}
        expected = {group: self.model[group] for group in (changed if spark.mode == "update" else closed)}
        found = {(self._start(row), _same(row["key"])): row for row in emitted}
        assert len(found) == len(emitted)
        assert found.keys() == expected.keys()
        for group, values in expected.items():
            known = sorted(value for value in values if value is not None)
            row = found[group]
            assert (row["n"], row["total"], row["values"]) == (len(values), sum(known) if known else None, known)
        for group in closed:
            TRIED["closed windows"] += 1
            del self.model[group]
        spark.commit(max((at for at, _, _ in rows), default=None))
        if spark.windowed:  # a window that is over leaves the state
            held = {window for _, window in self._stored()}
            assert {window[0] for window in held} == {start * 1_000_000 for start, _ in self.model}

        TRIED["chunks"] += sum(_is_chunk(window) for _, window in self._stored())

    def _start(self, row):
        return int(row["start"].timestamp()) if self.spark.windowed else None

    def teardown(self):
        self.chunks.stop()


# Fewer steps than hypothesis takes by default: more runs find more than longer ones.
STEPS = settings(stateful_step_count=8, deadline=None, suppress_health_check=list(HealthCheck))


def main() -> None:
    """Run the machine many times and print what was tried."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000, help="how many schedules (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="which schedules (default 0)")
    chosen = parser.parse_args()
    begun, used = time.perf_counter(), time.process_time()
    phases = [Phase.generate, Phase.shrink]
    many = settings(STEPS, max_examples=chosen.runs, phases=phases, database=None, print_blob=True)
    run_state_machine_as_test(seed(chosen.seed)(StreamMachine), settings=many)
    seconds, used = time.perf_counter() - begun, time.process_time() - used
    print(", ".join(f"{count:,} {what}" for what, count in TRIED.items()))
    print(
        f"{seconds:.0f} s, of which {used:.0f} s on a processor: {TRIED['runs'] / used * 60:,.0f} runs per minute of it"
    )
    print("every result was equal to that of the model")


if __name__ == "__main__":
    main()
