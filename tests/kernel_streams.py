"""Random messages and workers for the tests of the routing kernels."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from keyspread.kernels.routing import Candidates, Identity

WORKERS = st.sampled_from([1, 2, 3, 7, 63, 64, 65, 130, 300])  # one word of bits, several, and enough for a digest


@st.composite
def streams(draw: st.DrawFn, most_weight: int = 1) -> list[tuple[int, int, bool]]:
    """Messages (key, weight, whether it is hot), with few enough keys that they repeat."""
    message = st.tuples(st.integers(0, 9), st.integers(1 if most_weight == 1 else 0, most_weight), st.booleans())
    messages = draw(st.lists(message, max_size=80))
    return [((key * 0x123456789ABCDEF) % 2**64, weight, is_hot) for key, weight, is_hot in messages]


@st.composite
def senders(draw: st.DrawFn) -> tuple[Identity, int, list[int]]:
    """An identity, the number of messages sent before, and the loads of the workers, which have many ties."""
    workers = draw(WORKERS)
    loads = np.random.default_rng(draw(st.integers(0, 2**32))).integers(0, draw(st.integers(1, 40)), workers)
    salt, start = draw(st.integers(0, 2**64 - 1)), draw(st.integers(0, workers - 1))
    return Identity(np.uint64(salt), start), draw(st.integers(0, 1000)), loads.tolist()


def keys_of(messages: list[tuple[int, int, bool]]) -> Any:
    return np.array([key for key, _, _ in messages], np.uint64)


def marks_of(messages: list[tuple[int, int, bool]]) -> Any:
    """What `observe` writes: the counter of a hot key, -1 for a cold one. Keys have counters as they appear."""
    counters: dict[int, int] = {}
    marks = [counters.setdefault(key, len(counters)) if is_hot else -1 for key, _, is_hot in messages]
    return np.array(marks, np.int32)


def small_candidates(workers: int, rows: int) -> Candidates:
    """Room for few rows, so that it runs out."""
    words = (workers + 63) // 64
    bits = np.zeros((rows, words), np.uint64)
    for worker in range(workers):
        bits[0, worker // 64] |= np.uint64(1 << worker % 64)
    return Candidates(
        bits,
        np.zeros(rows, np.int64),
        np.zeros(rows, np.uint64),
        np.full(20, -1, np.int32),
        np.ones(1, np.int64),
        np.zeros(rows, np.int32),
    )
