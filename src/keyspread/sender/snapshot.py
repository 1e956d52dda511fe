"""The state of a sender as bytes, and back. Only this file knows the format inside the frame.

The content is zlib of: length of the header, header (JSON), arrays one after the other. Whatever can be computed from
the rest (levels, candidates, the hash table, a heap) is left out.

Kernels trust the arrays that they are given, so nothing reaches them unchecked.
"""

import json
import struct
import zlib
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.errors import SnapshotError
from keyspread.framing import Frame
from keyspread.heavy_hitters import Mark
from keyspread.kernels import summary as counting
from keyspread.kernels.balance import regroup
from keyspread.sender.decay import fade_every
from keyspread.sender.registry import online_scheme
from keyspread.sender.schemes import Scheme
from keyspread.sender.settings import SenderSettings
from keyspread.sender.state import State

FRAME = Frame(b"KSND", version=5, what="a snapshot of a keyspread Sender", origin="Sender.snapshot()")

_SCALARS = ("messages", "turn", "choices", "margin", "unit", "review_at", "fade_at")
"""Fields of the state that are stored as they are."""

_TYPES = {
    "loads": np.int64,
    "head_shares": np.float64,
    "keys": np.uint64,
    "counts": np.int64,
    "errors": np.int64,
    "queued": np.int32,
    "levels": np.int32,
    "scalars": np.int64,
    "mark": np.int64,
    "listed": np.int64,
    "list_keys": np.uint64,
    "list_sizes": np.int64,
}
"""All arrays that a snapshot may hold."""

_LONGEST_HEADER = 1 << 26
_Arrays = dict[str, npt.NDArray[Any]]


def to_bytes(scheme: Scheme, state: State) -> bytes:
    """Return the snapshot of a sender with this scheme and state."""
    arrays: _Arrays = {"loads": state.balance.loads, "head_shares": state.head_shares}
    if state.heavy_hitters is not None:
        arrays |= state.heavy_hitters.save_state()
    if state.mark is not None:
        arrays["mark"] = state.mark.counts
    arrays |= scheme.saved_lists(state)
    header = {
        "scheme": scheme.name,
        "settings": asdict(state.settings),
        **{name: getattr(state, name) for name in _SCALARS},
        "mark_total": None if state.mark is None else state.mark.total,
        "arrays": {name: array.size for name, array in arrays.items()},
    }
    text = json.dumps(header).encode()
    stored = (np.asarray(array, _TYPES[name]).tobytes() for name, array in arrays.items())
    return FRAME.seal(zlib.compress(b"".join([struct.pack("<I", len(text)), text, *stored]), 1))


def from_bytes(data: bytes) -> tuple[Scheme, State]:
    """Return the scheme and the state of a snapshot; refuse any other bytes."""
    content = FRAME.open(data)
    try:
        return _read(content)
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
        struct.error,
        zlib.error,
    ) as problem:
        reason = " ".join(str(problem).split())[:200]
        raise SnapshotError(
            f"{FRAME.what} has a right checksum but wrong content ({reason}): "
            f"pass what {FRAME.origin} returned, unchanged"
        ) from None


def _read(content: bytes) -> tuple[Scheme, State]:
    header, arrays = _unpack(content)
    scheme = online_scheme(header["scheme"])
    settings = _settings(scheme, header["settings"])
    _check_header(header, scheme, settings)
    _check("loads", arrays["loads"].size == settings.workers and _whole(arrays["loads"]))
    state = State.of(settings, header["choices"])
    for name in _SCALARS:
        # JSON may write a float as a whole number of any size, which a kernel would not take.
        setattr(state, name, float(header[name]) if isinstance(getattr(state, name), float) else header[name])
    state.head_shares = arrays["head_shares"]
    _check("head_shares", bool(((state.head_shares >= 0) & (state.head_shares <= 1 + 1e-9)).all()))
    state.balance.loads[:] = arrays["loads"]
    regroup(state.balance)
    if state.heavy_hitters is not None:
        _check_counters(arrays, settings.counters)
        state.heavy_hitters.load_state(arrays)
        if "mark" in arrays:
            state.mark = _mark(arrays["mark"], header["mark_total"], arrays["counts"], state.heavy_hitters.total)
        if scheme.sizes_each_key:
            _check_lists(arrays, settings)
        scheme.restore_lists(state, arrays)
    return scheme, state


def _unpack(compressed: bytes) -> tuple[dict[str, Any], _Arrays]:
    """Return header and arrays. No more is unpacked than the header announces."""
    stream = zlib.decompressobj()
    (size,) = struct.unpack("<I", stream.decompress(compressed, 4))
    _check("the length of the header", 0 < size <= _LONGEST_HEADER)
    header = json.loads(stream.decompress(stream.unconsumed_tail, size))
    sizes = {name: checks.whole_number(name, count, minimum=0) for name, count in header["arrays"].items()}
    kinds = {name: np.dtype(_TYPES[name]) for name in sizes}
    expected = sum(count * kinds[name].itemsize for name, count in sizes.items())
    body = stream.decompress(stream.unconsumed_tail, expected + 1)
    _check("the length of the content", len(body) == expected and stream.eof and not stream.unused_data)
    arrays, at = {}, 0
    for name, count in sizes.items():
        arrays[name] = np.frombuffer(body, kinds[name], count, at).copy()
        at += arrays[name].nbytes
    return header, arrays


def _check(what: str, holds: bool) -> None:
    if not holds:
        raise ValueError(f"{what} cannot be right")


def _whole(values: npt.NDArray[np.int64]) -> bool:
    """Return whether values are counts: not negative, with a sum that can be counted with."""
    if not values.size:
        return True
    return bool(values.min() >= 0) and float(values.sum(dtype=np.float64)) <= 1.001 * checks.LARGEST_TOTAL


def _settings(scheme: Scheme, given: dict[str, Any]) -> SenderSettings:
    """Return settings that a sender of this scheme can have."""
    options = {name: value for name, value in given.items() if name != "fixed_choices"}
    if not scheme.tracks_head:
        _check("counters", options["counters"] == 0)
        options["counters"] = None
    checked = SenderSettings.of(scheme, choices=given["fixed_choices"], **options)
    # As text: in Python false is equal to 0, and 300.0 to 300.
    _check("settings", _as_text(asdict(checked)) == _as_text(given))
    return checked


def _as_text(settings: dict[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


def _check_header(header: dict[str, Any], scheme: Scheme, settings: SenderSettings) -> None:
    most = checks.LARGEST_TOTAL
    messages = checks.whole_number("messages", header["messages"], 0, most)
    checks.whole_number("turn", header["turn"], 0, settings.workers - 1)
    checks.whole_number("choices", header["choices"], 1, settings.workers)
    checks.whole_number("review_at", header["review_at"], 0, 2 * most)
    checks.not_negative("margin", header["margin"])
    _check("unit", checks.number("unit", header["unit"]) > 0)
    every = fade_every(scheme, settings)
    least, largest = (messages, messages + every) if every else (0, 0)
    checks.whole_number("fade_at", header["fade_at"], least, largest)


def _check_counters(arrays: _Arrays, capacity: int) -> None:
    """Check the counters and the ring: a kernel would follow a wrong index anywhere."""
    keys, counts, errors, scalars = (arrays[name] for name in ("keys", "counts", "errors", "scalars"))
    queued, levels = arrays["queued"], arrays["levels"]
    _check("scalars", scalars.size == counting.SCALARS and _whole(scalars))
    size, total, level, end = (int(scalars[at]) for at in (counting.SIZE, counting.TOTAL, counting.LEVEL, counting.END))
    ring = scalars[counting.QUEUE] == counting.RING
    _check("the number of counters", keys.size == counts.size == errors.size == size <= capacity)
    _check("keys", np.unique(keys).size == size)
    _check("counts", _whole(counts) and int(counts.sum()) <= total and bool((counts > 0).all()))
    _check("errors", bool(((errors >= 0) & (errors <= counts)).all()))
    _check(
        "the kind of the queue", 0 <= scalars[counting.QUEUE] <= counting.HEAP and scalars[counting.WEIGHED] in (0, 1)
    )
    _check("the number of messages", total == 0 or scalars[counting.MESSAGES] > 0)
    _check("the ring", queued.size == levels.size and (ring or queued.size == 0))
    if ring:
        _check("the ring", size == capacity and 0 <= end - level <= counting.ring_levels(capacity))
        _check("the queue", np.unique(queued).size == queued.size and _within(queued, 0, size))
        _check("levels", _within(levels, 0, end - level) and bool((levels + level <= counts[queued]).all()))


def _mark(mark: npt.NDArray[np.int64], total: Any, counts: npt.NDArray[np.int64], now: int) -> Mark:
    """Return the counts at the start of the epoch: none has become smaller since then."""
    used = counts.size
    checks.whole_number("mark_total", total, 0, now)
    _check("mark", mark.size >= used and _whole(mark) and int(mark.sum()) <= total)
    _check("mark", bool((mark[:used] <= counts).all()) and not mark[used:].any())
    _check("mark", int(counts.sum() - mark.sum()) <= now - total)
    return Mark(mark, total)


def _check_lists(arrays: _Arrays, settings: SenderSettings) -> None:
    listed, sizes = arrays["listed"], arrays["list_sizes"]
    _check("lists", listed.size == sizes.size == arrays["list_keys"].size and _within(listed, 0, settings.counters))
    # A list without workers would route to worker -1. Only keys that need more than one worker have a list.
    _check("sizes of lists", _within(sizes, 1, settings.workers + 1))


def _within(values: npt.NDArray[Any], first: int, end: int) -> bool:
    return not values.size or bool(first <= values.min() and values.max() < end)
