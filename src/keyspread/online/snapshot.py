"""A sender as bytes and back. Only this file knows the format.

    4 bytes   b"KSND"
    8 bytes   xxh64 of all that follows
    rest      zlib of: length of the header, header (JSON), arrays one after the other

What can be computed from the rest (levels, candidates, the hash table) is left out.
"""

import json
import struct
import zlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import xxhash

from keyspread.errors import SnapshotError
from keyspread.heavy_hitters import Mark
from keyspread.kernels import summary as kernels
from keyspread.kernels.balance import regroup
from keyspread.online.settings import Settings
from keyspread.schemes.per_key import lists_of, take_lists

if TYPE_CHECKING:
    from keyspread.online.sender import Sender

_MAGIC = b"KSND"
_VERSION = 2


def write(sender: "Sender") -> bytes:
    """Give the snapshot of a sender."""
    state = sender._state
    arrays: dict[str, npt.NDArray[Any]] = {"loads": state.balance.loads, "shares": sender._shares}
    if state.heavy_hitters is not None:
        counters = state.heavy_hitters.arrays
        used = len(state.heavy_hitters)
        arrays |= {
            "keys": counters.keys[:used],
            "counts": counters.counts[:used],
            "errors": counters.errors[:used],
        }
        arrays |= {"scalars": counters.scalars}
        if counters.scalars[kernels.QUEUED]:  # which of several least counters goes first depends on the queue
            arrays |= {"following": counters.following, "ring": counters.ring}
    if sender._mark is not None:
        arrays |= {"mark": sender._mark.counts}
    if sender._scheme.sizes_each_key:
        arrays |= lists_of(state)
    header = {
        "version": _VERSION,
        "scheme": sender.scheme,
        "settings": asdict(state.settings),
        "messages": state.messages,
        "turn": state.turn,
        "choices": state.choices,
        "margin": state.margin,
        "unit": state.unit,
        "review_at": sender._review_at,
        "fade_at": sender._fade_at,
        "mark_total": None if sender._mark is None else sender._mark.total,
        "arrays": {name: [array.dtype.str, array.size] for name, array in arrays.items()},
    }
    text = json.dumps(header).encode()
    body = zlib.compress(
        struct.pack("<I", len(text)) + text + b"".join(array.tobytes() for array in arrays.values()), 1
    )
    return _MAGIC + xxhash.xxh64_digest(body) + body


def read(data: bytes) -> "Sender":
    """Give the sender of a snapshot."""
    header, arrays = _unpack(data)
    from keyspread.online.sender import Sender, new_state

    sender = Sender.__new__(Sender)
    from keyspread.schemes import online_scheme

    sender._scheme = online_scheme(header["scheme"])
    told = header["settings"]
    told["capacities"] = None if told["capacities"] is None else tuple(told["capacities"])  # JSON has no tuples
    state = new_state(sender._scheme, Settings(**told))
    sender._state = state
    state.messages, state.turn = header["messages"], header["turn"]
    state.choices, state.margin, state.unit = header["choices"], header["margin"], header["unit"]
    sender._review_at, sender._fade_at = header["review_at"], header["fade_at"]
    sender._shares = arrays["shares"]
    sender._mark = Mark(arrays["mark"], header["mark_total"]) if "mark" in arrays else None
    state.balance.loads[:] = arrays["loads"]
    regroup(state.balance)
    if state.heavy_hitters is not None:
        counters = state.heavy_hitters.arrays
        kernels.refill(counters, arrays["keys"], arrays["counts"], arrays["errors"])
        counters.scalars[:] = arrays["scalars"]
        if "ring" in arrays:
            counters.following[:] = arrays["following"]
            counters.ring[:] = arrays["ring"]
    if sender._scheme.sizes_each_key:
        take_lists(state, arrays)
    return sender


def _unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise SnapshotError(f"a snapshot is bytes, got {type(data).__name__}")
    data = bytes(data)
    if data[:4] != _MAGIC:
        raise SnapshotError(
            f"not a snapshot of a keyspread Sender: it starts with {data[:4]!r}, not {_MAGIC!r}; "
            "pass what Sender.snapshot() gave"
        )
    body = data[12:]
    if data[4:12] != xxhash.xxh64_digest(body):
        raise SnapshotError(
            f"the snapshot ({len(data)} bytes) is damaged or cut short: take an earlier one or start anew"
        )
    content = zlib.decompress(body)
    (size,) = struct.unpack_from("<I", content)
    header = json.loads(content[4 : 4 + size])
    if header["version"] != _VERSION:
        raise SnapshotError(
            f"the snapshot has format {header['version']}, this keyspread reads {_VERSION}: "
            "restore it with the keyspread that wrote it"
        )
    arrays, at = {}, 4 + size
    for name, (dtype, count) in header["arrays"].items():
        arrays[name] = np.frombuffer(content, dtype, count, at).copy()
        at += arrays[name].nbytes
    return header, arrays
