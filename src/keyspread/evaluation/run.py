"""A run is one setting of one stream, to be simulated: plain values that can be sent, stored and compared.

    runs = grid([ZipfStream(1.4, 10_000, 10**6)], scheme=["pkg", "dc"], workers=[10, 50], seed=range(3))

`Run.result` simulates it and gives a tidy table, a row a time slot. `result_store.py` keeps such
tables, `sweep.py` makes many of them at once.
"""

import hashlib
import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa

from keyspread import checks
from keyspread.errors import InputError
from keyspread.evaluation import metrics
from keyspread.evaluation.simulate import Simulation, simulate
from keyspread.online.settings import Settings
from keyspread.schemes import resolve
from keyspread.streams.encoded import Encoded


class StreamRecipe(Protocol):
    """A stream that can be had anywhere: `streams.ZipfStream`, `streams.FileStream`, …"""

    @property
    def title(self) -> str:
        """A few words for people."""

    def parameters(self) -> dict[str, Any]:
        """Everything that decides the stream, as plain values."""

    def encoded(self) -> Encoded:
        """Bring it into memory."""


@dataclass(frozen=True)
class Run:
    """One stream, one scheme, one setting. Equal runs give equal results."""

    stream: StreamRecipe
    scheme: str
    workers: int
    sources: int = 5
    seed: int = 0
    windows: int = 50
    options: tuple[tuple[str, Any], ...] = field(default=())
    """Of the senders: threshold, tolerance, capacity, choices, half_life."""

    @classmethod
    def of(cls, stream: StreamRecipe, scheme: str, workers: int, **settings: Any) -> "Run":
        """Check a setting and put it in order."""
        own = {
            name: checks.whole_number(name, settings.pop(name, getattr(cls, name)), least, 2**63 - 1)
            for name, least in (("sources", 1), ("seed", 0), ("windows", 1))
        }
        options = {name: value for name, value in settings.items() if value is not None}
        workers = checks.whole_number("workers", workers)
        found = resolve(scheme)
        taken = found.accept(options)
        if found.rule is not None:
            Settings.of(found.rule, workers, seed=own["seed"], **taken)
        return cls(stream, found.name, workers, options=tuple(sorted(options.items())), **own)

    def parameters(self) -> dict[str, Any]:
        """Everything that decides the result, as plain values."""
        return {
            **self.stream.parameters(),
            "scheme": self.scheme,
            "workers": self.workers,
            "sources": self.sources,
            "seed": self.seed,
            "windows": self.windows,
            **{_GIVEN.get(name, name): value for name, value in self.options},
        }

    @cached_property
    def id(self) -> str:
        """A name for this run and no other."""
        text = json.dumps(self.parameters(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def result(self, stream: Encoded | None = None) -> pa.Table:
        """Simulate it; `stream` is what `self.stream.encoded()` gives, if that is at hand."""
        encoded = self.stream.encoded() if stream is None else stream
        done = simulate(
            encoded,
            self.scheme,
            self.workers,
            sources=self.sources,
            seed=self.seed,
            windows=self.windows,
            **dict(self.options),
        )
        return _rows(self, done, int(encoded.counts.max(initial=0)))


# Given to a scheme, in contrast to what it found.
_GIVEN = {"choices": "fixed_choices"}

_SETTING = {
    "stream": pa.string(),
    "path": pa.string(),
    "skew": pa.float64(),
    "law_keys": pa.int64(),
    "stream_seed": pa.int64(),
    "every": pa.int64(),
    "hottest": pa.int64(),
    "redrawn": pa.float64(),
    "scheme": pa.string(),
    "workers": pa.int64(),
    "sources": pa.int64(),
    "seed": pa.int64(),
    "tolerance": pa.float64(),
    "capacity": pa.int64(),
    "fixed_choices": pa.int64(),
    "half_life": pa.string(),  # a number of messages, or auto
}
_WHOLE = {
    "messages": pa.int64(),
    "keys": pa.int64(),
    "top_messages": pa.int64(),
    "threshold": pa.float64(),
    "final_imbalance": pa.float64(),
    "mean_imbalance": pa.float64(),
    "windowed_imbalance": pa.float64(),
    "replicas": pa.int64(),
    "head_replicas": pa.int64(),
    "choices": pa.list_(pa.int64()),
    "sender_error": pa.float64(),
    "loads": pa.list_(pa.int64()),
    "head_load": pa.list_(pa.int64()),
}
_SLOT = {"slot": pa.int32(), "slot_end": pa.int64(), "imbalance": pa.float64(), "window_imbalance": pa.float64()}
SCHEMA = pa.schema({"run": pa.string(), **_SETTING, **_WHOLE, **_SLOT})
"""A row a run and a time slot: the setting, what came of the whole run, and the slot's own numbers."""


def _rows(run: Run, done: Simulation, top_messages: int) -> pa.Table:
    ends = metrics.window_ends(done.messages, run.windows)
    if not ends.size:
        return SCHEMA.empty_table()
    given = {**run.parameters(), "threshold": done.threshold}
    if "half_life" in given:
        given["half_life"] = str(given["half_life"])
    whole = {name: getattr(done, name, None) for name in _WHOLE}
    whole |= {"final_imbalance": done.imbalance, "choices": list(done.choices), "top_messages": top_messages}
    whole |= {"loads": done.loads.tolist(), "head_load": done.head_load.tolist()}
    values = {"run": run.id, **{name: given.get(name) for name in _SETTING}, **whole}
    columns = {
        name: pa.repeat(pa.scalar(values[name], SCHEMA.field(name).type), ends.size)
        for name in SCHEMA.names
        if name not in _SLOT
    }
    slots = [range(1, ends.size + 1), ends, done.imbalance_over_time, done.window_imbalance]
    columns |= {name: pa.array(slot, kind) for (name, kind), slot in zip(_SLOT.items(), slots, strict=True)}
    return pa.table([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def grid(streams: Iterable[StreamRecipe], **settings: Any) -> list[Run]:
    """Make a run of every stream with every combination of settings; a setting is one value or several.

    >>> from keyspread.streams import ZipfStream
    >>> runs = grid([ZipfStream(1.4, 100, 1000)], scheme=["pkg", "dc"], workers=[5, 10], seed=range(3))
    >>> len(runs), runs[0].scheme
    (12, 'partial-key')
    """
    for needed in ("scheme", "workers"):
        if needed not in settings:
            raise InputError(f"a grid needs {needed}: one value or several")
    several = {name: _several(value) for name, value in settings.items()}
    return [
        Run.of(stream, **dict(zip(several, values, strict=True)))
        for stream in streams
        for values in itertools.product(*several.values())
    ]


def _several(value: Any) -> Sequence[Any]:
    return [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
