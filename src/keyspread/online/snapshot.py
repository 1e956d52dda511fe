"""The state of a sender as bytes, and back. Only this file knows the format inside the frame.

The content is zlib of: length of the header, header (JSON), arrays one after the other. Whatever can be computed from
the rest (levels, candidates, the hash table) is left out.
"""

import json
import struct
import zlib
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread.framing import Frame
from keyspread.heavy_hitters import Mark
from keyspread.kernels.balance import regroup
from keyspread.online.settings import Settings
from keyspread.schemes import Scheme, State, online_scheme

FRAME = Frame(b"KSND", version=3, what="a snapshot of a keyspread Sender", origin="Sender.snapshot()")

_SCALARS = ("messages", "turn", "choices", "margin", "unit", "review_at", "fade_at")
"""Fields of the state that are stored as they are."""

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
        "arrays": {name: [array.dtype.str, array.size] for name, array in arrays.items()},
    }
    text = json.dumps(header).encode()
    parts = [struct.pack("<I", len(text)), text, *(array.tobytes() for array in arrays.values())]
    return FRAME.seal(zlib.compress(b"".join(parts), 1))


def from_bytes(data: bytes) -> tuple[Scheme, State]:
    """Return the scheme and the state of a snapshot; refuse any other bytes."""
    header, arrays = _unpack(FRAME.open(data))
    scheme = online_scheme(header["scheme"])
    settings = header["settings"]
    if settings["capacities"] is not None:
        settings["capacities"] = tuple(settings["capacities"])  # JSON has no tuples
    state = State.of(Settings(**settings), header["choices"])
    for name in _SCALARS:
        setattr(state, name, header[name])
    state.head_shares = arrays["head_shares"]
    state.mark = Mark(arrays["mark"], header["mark_total"]) if "mark" in arrays else None
    state.balance.loads[:] = arrays["loads"]
    regroup(state.balance)
    if state.heavy_hitters is not None:
        state.heavy_hitters.load_state(arrays)
    scheme.restore_lists(state, arrays)
    return scheme, state


def _unpack(compressed: bytes) -> tuple[dict[str, Any], _Arrays]:
    content = zlib.decompress(compressed)
    (size,) = struct.unpack_from("<I", content)
    header = json.loads(content[4 : 4 + size])
    arrays, at = {}, 4 + size
    for name, (dtype, count) in header["arrays"].items():
        arrays[name] = np.frombuffer(content, dtype, count, at).copy()
        at += arrays[name].nbytes
    return header, arrays
