"""A run: one simulation with all its parameters, as plain values that can be sent, stored and compared.

    runs = grid([ZipfStream(1.4, 10_000, 10**6)], scheme=["pkg", "dc"], workers=[10, 50], seed=range(3))

`Run.result` simulates it and returns a tidy table with one row per time slot. `result_store.py` stores such tables,
and `sweep.py` computes many of them at once.
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
from keyspread.checks import checked_threshold
from keyspread.errors import InputError
from keyspread.evaluation.simulate import Simulation, simulate
from keyspread.sender.registry import resolve
from keyspread.sender.settings import SenderSettings
from keyspread.streams.encoded import Encoded, window_ends


class StreamRecipe(Protocol):
    """A description of a stream from which any process can load it: `streams.ZipfStream`, `streams.FileStream`, …"""

    @property
    def title(self) -> str:
        """A short description for people."""

    def parameters(self) -> dict[str, Any]:
        """Return everything that decides the stream, as plain values."""

    def encoded(self) -> Encoded:
        """Load the stream into memory."""


@dataclass(frozen=True)
class Run:
    """One stream, one scheme, one set of parameters. Equal runs have equal results."""

    stream: StreamRecipe
    scheme: str
    workers: int
    sources: int = 5
    seed: int = 0
    windows: int = 50
    options: tuple[tuple[str, Any], ...] = field(default=())
    """The options of the scheme, sorted by name."""

    @classmethod
    def of(cls, stream: StreamRecipe, scheme: str, workers: int, **settings: Any) -> "Run":
        """Check the parameters and return the run, with the canonical name of its scheme."""
        numbers = {
            name: checks.whole_number(name, settings.pop(name, getattr(cls, name)), least, most)
            for name, least, most in (("sources", 1, None), ("seed", 0, 2**63 - 1), ("windows", 1, None))
        }
        workers = checks.whole_number("workers", workers)
        options = {name: value for name, value in settings.items() if value is not None}
        described = resolve(scheme)
        # What is reported about hot keys depends on the threshold, with any scheme.
        of_scheme = described.require({name: value for name, value in options.items() if name != "threshold"})
        checked_threshold(options.get("threshold"), workers)
        if described.rule is not None:
            SenderSettings.of(described.rule, workers, threshold=options.get("threshold"), **of_scheme)
        return cls(stream, described.name, workers, options=tuple(sorted(options.items())), **numbers)

    def parameters(self) -> dict[str, Any]:
        """Return everything that decides the result, as plain values."""
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
        """A name that no other run has."""
        text = json.dumps(self.parameters(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def result(self, stream: Encoded | None = None) -> pa.Table:
        """Simulate the run and return its rows; `stream` is `self.stream.encoded()`, if it is already loaded."""
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


# The option is stored under another name, because `choices` is also a result.
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
    "counters": pa.int64(),
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
"""One row per run and time slot: the parameters, the results of the whole run, and the results of the slot."""


def _rows(run: Run, done: Simulation, top_messages: int) -> pa.Table:
    ends = window_ends(done.messages, run.windows)
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
    """Return a run of every stream with every combination of parameters; a parameter is one value or several.

    >>> from keyspread.streams import ZipfStream
    >>> runs = grid([ZipfStream(1.4, 100, 1000)], scheme=["pkg", "dc"], workers=[5, 10], seed=range(3))
    >>> len(runs), runs[0].scheme
    (12, 'partial-key')
    """
    for needed in ("scheme", "workers"):
        if needed not in settings:
            raise InputError(f"a grid needs {needed}: pass one value or several")
    several = {name: _several(value) for name, value in settings.items()}
    return [
        Run.of(stream, **dict(zip(several, values, strict=True)))
        for stream in streams
        for values in itertools.product(*several.values())
    ]


def _several(value: Any) -> Sequence[Any]:
    return [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
