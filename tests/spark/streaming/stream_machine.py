"""A state machine for operators on a stream: random schedules of batches and faults, in this process, without Spark.

It drives the code that runs on the executors (`packer`, `processor` with its `StateMerger`, `unpacker`, and the
operator's `make`, `fold` and `finish`) and compares what it emits with a model in plain Python. `FakeSpark` is a fake
of what Spark does around that code: it hands rows to workers, drops late ones, keeps versions of the state, calls
timers. It keeps to Spark's contract: a batch reads the versions that the last committed batch wrote, and a batch that
fails, however many of its writes were done, starts again from those. A key is in the state partition to which Spark
hashes it, and their number never changes: it is that of the first run, whatever later runs ask for.

    ./dev python tests/spark/streaming/stream_machine.py --runs 5000 --seed 0

prints the number of runs and of what they tried. `mutants.toml` has the faults that it must notice.
"""

import argparse
import datetime
import math
import time
from collections import Counter
from functools import cache
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from pyspark import TaskContext
from pyspark.sql import Row

from keyspread import ColumnOperator, Operator, hash_keys
from keyspread.folding.column_states import ColumnStates
from keyspread.folding.operator_states import OperatorStates
from keyspread.spark._folding.operator_parts import parameters_of
from keyspread.spark._routing.exchange import spark_hash, tags_of
from keyspread.spark._streaming import chunks as window_entries
from keyspread.spark._streaming.blobs import StateError
from keyspread.spark._streaming.state import IDENTITY_KEY, STATE_PARTITIONS, StateRules, packer, processor, unpacker

SECOND = 1_000_000  # all times are in µs
# Length and slide of the windows. The ends of the last ones are between two milliseconds, in which Spark counts timers.
WINDOWS = [(10 * SECOND, 10 * SECOND), (10 * SECOND, 5 * SECOND), (7 * SECOND, 3 * SECOND), (10_000_500, 10 * SECOND)]
DELAY = 5 * SECOND  # of the watermark
ZONES = ["UTC", "Europe/Berlin", "America/New_York"]
TRIED = Counter()
# Relative to the watermark: whole seconds, and a few milliseconds around them.
TIMES = st.builds(lambda s, ms: s * SECOND + ms * 1000, st.integers(-40, 20), st.sampled_from([0, 0, 0, 1, -1, 999]))


class Reach(Operator):
    """Count, sum, the values that are not null, the last time and the words seen, with any state.

    Subclasses say how the state is stored. How Spark hands over times and texts depends on the session.
    """

    schema = "n bigint, total bigint, values array<bigint>, last timestamp, words array<string>"
    batches = "arrow"

    def __init__(self, scale=1):
        self.scale = scale

    def zero(self):
        return {"n": 0, "total": None, "values": [], "last": None, "words": []}

    def update(self, state, rows):
        values = [value * self.scale for value in rows["value"].to_pylist() if value is not None]
        times = rows["at"].to_pylist()
        found = {"n": len(times), "total": sum(values) if values else None, "values": values, "last": max(times)}
        return self.merge(state, {**found, "words": [f"w{value}" for value in values]})

    def merge(self, state, other):
        totals = [one for one in (state["total"], other["total"]) if one is not None]
        return {
            "n": state["n"] + other["n"],
            "total": sum(totals) if totals else None,
            "values": [*state["values"], *other["values"]],
            "last": max((one for one in (state["last"], other["last"]) if one is not None), default=None),
            "words": sorted({*state["words"], *other["words"]}),
        }

    def finish(self, state):
        return {**state, "values": sorted(state["values"])}


class TypedReach(Reach):
    """The same; its state is stored as columns."""

    state = schema = Reach.schema


class ColumnReach(ColumnOperator):
    """The same by column: a state per row, so that keys are there twice, and merged keys in another order."""

    state = schema = Reach.schema

    def __init__(self, scale=1):
        self.scale = scale

    def partial(self, rows, key):
        values = [None if value is None else value * self.scale for value in rows["value"].to_pylist()]
        known = [[] if value is None else [value] for value in values]
        words = pa.array([[f"w{value}" for value in one] for one in known], pa.list_(pa.string()))
        states = [
            [1] * len(values),
            pa.array(values, pa.int64()),
            pa.array(known, pa.list_(pa.int64())),
            rows["at"],
            words,
        ]
        return pa.table([*rows.select(key).columns, *states], names=[*key, *NAMES])

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
            [max(row["last"] for _, row in group) for group in found],
            [sorted({word for _, row in group for word in row["words"]}) for group in found],
        ]
        heads = states.select(key).take([group[0][0] for group in found])
        kinds = [states.schema.field(name).type for name in NAMES]
        return pa.table([*heads.columns, *map(pa.array, merged, kinds)], names=[*key, *NAMES])

    def finish(self, states, key):
        values = pa.array([sorted(one) for one in states["values"].to_pylist()], pa.list_(pa.int64()))
        backwards = list(reversed(range(states.num_rows)))
        return states.set_column(states.schema.get_field_index("values"), "values", values).take(backwards)


NAMES = ["n", "total", "values", "last", "words"]


def text_type(zone):
    """Return the Arrow type of texts in a session: large or not, which is a setting of its own in Spark."""
    return pa.string() if zone == "UTC" else pa.large_string()


def fields(zone):
    """Return the types of the operator's state and result, as Spark tells them in a session."""
    kinds = [pa.int64(), pa.int64(), pa.list_(pa.int64()), pa.timestamp("us", zone), pa.list_(text_type(zone))]
    return pa.schema([*zip(NAMES, kinds, strict=True)])


def moment(at):
    return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=at)


def windows_of(at, length, slide):
    """Return the starts of the windows that hold this time, as Spark's `window` does."""
    last = at // slide * slide
    return [start for start in range(last, at - length, -slide) if start <= at < start + length]


# Kinds of keys: values as a user has them, and the Arrow type with which Spark hands them over in a session.
KEYS = {
    "text": ([None, "", "hot", "a", "b"], lambda zone: pa.string()),
    "large text": ([None, "hot", "a"], text_type),
    "time": ([None, moment(0), moment(3600 * SECOND)], lambda zone: pa.timestamp("us", zone)),
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

    def __init__(self, workers, windows, mode, operator, key):
        self.workers, self.windows, self.mode, self.operator, self.key = workers, windows, mode, operator, key
        self.windowed = windows is not None
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
        columns = [kind.with_name("k"), pa.field("at", bound), pa.field("value", pa.int64())]
        self.rows = pa.schema([pa.field("hash", pa.int64()), *keys, *columns])
        names, kinds = self.rows.names[-3:], fields(zone)
        if isinstance(operator, ColumnOperator):
            states = ColumnStates(operator, [field.name for field in keys], names, kinds, kinds)
        else:
            states = OperatorStates(operator, len(keys), names, kinds if operator.state is not None else None, kinds)
        identity = {"aggregates": {"operator": "Reach", "parameters": parameters_of(operator)}, "workers": workers}
        bounds = pa.timestamp("us", "UTC") if self.windowed else None
        rules = StateRules(states.fold, identity, workers, self.mode, bounds)
        self.pack, self.processor, self.finish = packer(rules, states.make), processor(rules), unpacker(states.finish)
        self.running = workers

    def batch(self, placed, crash_after=None):
        """Run the next batch: rows by worker. Return what it emits; if it fails, nothing is committed."""
        arrived = {}
        for worker in range(self.running):
            with mock.patch.object(TaskContext, "get", lambda at=worker: self._task(at)):
                packed = list(self.pack(iter(self._tables(placed.get(worker, [])))))
            for blobs in packed:
                for row in blobs.to_pylist():
                    if self.windowed and row["window"] is not None and row["end"] <= self.before:
                        continue  # late: Spark drops the blob by the end of its window
                    arrived.setdefault(row["tag"], []).append(Row(**row))
        emitted = []
        for partition in range(self.workers):
            entries, timers = self.versions[partition][self.committed]
            handle = FakeHandle(entries, timers)
            self.processor.init(handle)
            with mock.patch.object(TaskContext, "get", lambda at=partition: self._task(at)):
                for tag, rows in arrived.items():
                    if int(spark_hash(np.array([tag]), np.array(42))[0]) % self.workers == partition:
                        emitted += self.processor.handleInputRows((tag,), iter(rows), None)
                for at in sorted(handle.timers):
                    if at * 1000 <= self.watermark:
                        handle.timers.discard(at)
                        info = SimpleNamespace(getExpiryTimeInMs=lambda at=at: at)
                        emitted += self.processor.handleExpiredTimer((tags_of(self.running)[0],), None, info)
            self.processor.close()
            if partition == crash_after:
                raise CrashError  # the writes of the partitions before this one are done, the others are lost
            self.versions[partition][self.committed + 1] = (handle.entries, frozenset(handle.timers))
        out = pa.RecordBatch.from_pydict({"blob": pa.array([row.blob for row in emitted], pa.binary())})
        return [row for table in self.finish([out]) for row in self._named(table)]

    def _task(self, partition):
        """Return the context of a task. It sees two settings: one of the checkpoint, and that of the session now."""
        properties = {STATE_PARTITIONS: str(self.workers), "spark.sql.shuffle.partitions": str(self.running)}
        return SimpleNamespace(partitionId=lambda: partition, getLocalProperty=properties.get)

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
        given = [[_hash(key), key, key, moment(at), value] for at, key, value in rows]
        if self.windowed:
            length, slide = self.windows
            given = [
                [row[0], moment(start), moment(start + length), *row[1:]]
                for row, (at, _, _) in zip(given, rows, strict=True)
                for start in windows_of(at, length, slide)
            ]
        for begin in range(0, len(given), 3):
            columns = zip(*given[begin : begin + 3], strict=True)
            arrays = [pa.array(list(c), f.type) for c, f in zip(columns, self.rows, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.rows)

    def _named(self, table):
        names = [*(["start", "end"] if self.windowed else []), "key", *fields("UTC").names]
        return [dict(zip(names, row.values(), strict=True)) for row in table.to_pylist()]


def _hash(key):
    """Return a hash that is the same for equal keys; which one does not matter here."""
    return _hash_of_text(repr(_same(key)))


@cache
def _hash_of_text(text):
    return int(hash_keys([text])[0])


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
        windows=st.sampled_from([None, *WINDOWS]),
        update=st.booleans(),
        operator=st.sampled_from([Reach, TypedReach, ColumnReach]),
        key=st.sampled_from(sorted(KEYS)),
        chunk=st.sampled_from([1, 40, 100, window_entries.CHUNK_BYTES]),
    )
    def begin(self, workers, windows, update, operator, key, chunk):
        self.chunks = mock.patch.object(window_entries, "CHUNK_BYTES", chunk)  # small, so that few keys fill many
        self.chunks.start()
        mode = "append" if windows is not None and not update else "update"
        self.operator = operator()
        self.spark = FakeSpark(workers, windows, mode, self.operator, key)
        self.values = KEYS[key][0]
        self.model = {}  # (start of the window or None, key) -> (time, value) of all rows that count
        self.nullable = True
        TRIED["runs"] += 1

    @rule(
        data=st.data(),
        zone=st.sampled_from([None, *ZONES]),
        nullable=st.booleans(),
        rows=st.lists(st.tuples(TIMES, st.integers(0, 9)), max_size=8),
    )
    def batch(self, data, zone, nullable, rows):
        """Run a batch of rows, some late, of any size, on any workers; if it crashes, run it again.

        With a zone, the query is restarted before, in a session with that time zone; the key may become non-null.
        """
        if zone is not None:
            TRIED["restarts"] += 1
            self.nullable = nullable
            self.spark.start(zone, nullable)
        drawn = self._rows(rows)
        for _ in range(data.draw(st.integers(0, 2), label="crashes")):
            TRIED["retries"] += 1
            with pytest.raises(CrashError):
                self.spark.batch(self._placed(data, drawn), data.draw(st.integers(0, self.spark.workers - 1)))
        self._done(self.spark.batch(self._placed(data, drawn)), drawn)

    @rule(data=st.data(), workers=st.integers(1, 7), rows=st.lists(st.tuples(TIMES, st.integers(0, 9)), min_size=1))
    def other_workers(self, data, workers, rows):
        """A restart with another number of workers is refused in the first batch."""
        if workers == self.spark.workers or not self.spark.committed:
            return
        drawn = self._rows(rows)
        before = {partition: dict(versions) for partition, versions in self.spark.versions.items()}
        self.spark.start("UTC", True, workers=workers)
        TRIED["other numbers of workers"] += 1
        with pytest.raises(StateError, match="another number of workers") as caught:
            self.spark.batch(self._placed(data, drawn))
        assert "\n" not in str(caught.value)
        self.spark.versions = before
        self.spark.start("UTC", True)
        self.nullable = True

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

    @precondition(lambda self: self.spark.committed)
    @rule()
    def another_query(self):
        """A query with another parameter of the operator does not resume from this state, whatever rows come first."""
        TRIED["other queries"] += 1
        before = {partition: dict(versions) for partition, versions in self.spark.versions.items()}
        self.spark.start("UTC", True, type(self.operator)(scale=2))
        with pytest.raises(StateError, match=r"parameters.*'scale': '1'.*'scale': '2'"):
            self.spark.batch({})
        self.spark.versions = before
        self.spark.start("UTC", True)
        self.nullable = True

    def _fails(self, partition, window, message):
        """Send every key into that window, or into the totals, so that the state is read; or close the window."""
        chunk, start = _is_chunk(window), window[0]
        end = start + self.spark.windows[0] if self.spark.windowed else None
        if end is not None and end <= self.spark.before:
            return  # it is over: its rows would be late
        TRIED["refusals"] += 1
        rows = {0: [(start, key, 1) for key in self.values]}
        before = {p: dict(v) for p, v in self.spark.versions.items()}
        # In append mode a chunk is read when its window closes.
        closes = chunk and self.spark.mode == "append"
        with pytest.raises(StateError, match=message) as caught:
            self.spark.close(partition, -(-end // 1000)) if closes else self.spark.batch(rows)
        assert "\n" not in str(caught.value)
        self.spark.versions = before

    def _stored(self):
        return [
            (partition, window)
            for partition, versions in self.spark.versions.items()
            for window in versions.get(self.spark.committed, ({}, ()))[0]
            if window != IDENTITY_KEY
        ]

    def _rows(self, rows):
        """Return drawn rows as (time, key, value), around the watermark."""
        ahead = 100 * SECOND if self.spark.watermark == -math.inf else self.spark.watermark
        keys = self.values if self.nullable else self.values[1:]
        return [(ahead + at, keys[n % len(keys)], None if n == 9 else n) for at, n in rows]

    def _groups(self, rows):
        """Return the groups of rows that are not late, each with its times and values."""
        found = {}
        for at, key, value in rows:
            starts = windows_of(at, *self.spark.windows) if self.spark.windowed else [None]
            for start in starts:
                if start is not None and start + self.spark.windows[0] <= self.spark.before:
                    TRIED["late rows"] += 1
                else:
                    found.setdefault((start, _same(key)), []).append((at, value))
        return found

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
        spark, new = self.spark, self._groups(rows)
        for group, values in new.items():
            self.model.setdefault(group, []).extend(values)
        closed = {group for group in self.model if spark.windowed and group[0] + spark.windows[0] <= spark.watermark}
        expected = {group: self.model[group] for group in (new if spark.mode == "update" else closed)}
        found = {(self._start(row), _same(row["key"])): row for row in emitted}
        assert len(found) == len(emitted)
        assert found.keys() == expected.keys()
        for group, values in expected.items():
            known, row = sorted(value for _, value in values if value is not None), found[group]
            assert (row["n"], row["total"], row["values"]) == (len(values), sum(known) if known else None, known)
            assert row["last"] == moment(max(at for at, _ in values))
            assert row["words"] == sorted({f"w{value}" for value in known})
        for group in closed:
            TRIED["closed windows"] += 1
            del self.model[group]
        spark.commit(max((at for at, _, _ in rows), default=None))
        if spark.windowed:  # a window that is over leaves the state
            held = {window for _, window in self._stored()}
            assert {window[0] for window in held} == {start for start, _ in self.model}

        TRIED["chunks"] += sum(_is_chunk(window) for _, window in self._stored())

    def _start(self, row):
        return (row["start"] - moment(0)) // datetime.timedelta(microseconds=1) if self.spark.windowed else None

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
