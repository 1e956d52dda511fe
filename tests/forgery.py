"""Snapshots of senders and plans with a right checksum and wrong content: refused in one line, or harmless.

    ./dev python tests/forgery.py [TRIES] [SEED]

changes one to three values of a real snapshot or plan at random, and prints how many were refused, how many are still
valid (they must route as a sender does), and how many raised anything else. The tests use the same changes.
"""

import json
import struct
import sys
import traceback
import zlib
from collections import Counter
from typing import Any

import numpy as np

from keyspread import SCHEMES, InputError, Plan, Sender, plan
from keyspread.checks import LARGEST_TOTAL
from keyspread.errors import SnapshotError
from keyspread.sender.snapshot import _TYPES, FRAME
from keyspread.streams import zipf

STRANGE: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3.5, -0.5, 1e308, -1e308, float("nan"), float("inf"), 2**31 - 1, 2**31, 2**40,
    2**62, 2**63, -(2**63), 2**64, 10**400, "", "auto", "7", "d-choices", [], [1], [0, 1, 2], [[]], {}, {"a": 1},
    "\ud800",
]  # fmt: skip


def open_snapshot(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the arrays of a snapshot, unchecked."""
    content = zlib.decompress(FRAME.open(data))
    (size,) = struct.unpack_from("<I", content)
    header = json.loads(content[4 : 4 + size])
    arrays, at = {}, 4 + size
    for name, count in header["arrays"].items():
        arrays[name] = np.frombuffer(content, _TYPES[name], count, at).copy()
        at += arrays[name].nbytes
    return header, arrays


def seal_snapshot(header: dict[str, Any], arrays: dict[str, Any], *, honest: bool = True) -> bytes:
    """Return a snapshot of these parts with a right checksum; if `honest`, with the right lengths of the arrays."""
    if honest:
        header = header | {"arrays": {name: array.size for name, array in arrays.items()}}
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    parts = [struct.pack("<I", len(text)), text, *(array.tobytes() for array in arrays.values())]
    return FRAME.seal(zlib.compress(b"".join(parts), 1))


def change_value(random: np.random.Generator, value: Any) -> Any:
    """Return the value with one part of it changed: replaced, taken away, doubled or moved by one."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        name = str(random.choice(list(value)))
        if random.random() < 0.05:
            return {key: part for key, part in value.items() if key != name}
        return value | {name: change_value(random, value[name])}
    if isinstance(value, list) and value and random.random() < 0.9:
        at = int(random.integers(0, len(value)))
        kind = random.integers(0, 5)
        if kind == 0:
            return value[:at] + value[at + 1 :]
        if kind == 1:
            return [*value[: at + 1], *value[at:]]
        return [*value[:at], change_value(random, value[at]), *value[at + 1 :]]
    if isinstance(value, int | float) and random.random() < 0.3:
        return value + int(random.choice([-1, 1, 1000]))
    return STRANGE[int(random.integers(0, len(STRANGE)))]


def change_array(random: np.random.Generator, array: Any) -> Any:
    """Return an array with another length or another value."""
    kind = random.integers(0, 4)
    if kind == 0 or not array.size:
        return np.resize(array, int(random.integers(0, array.size + 3)))
    changed = array.copy()
    if kind == 1:
        changed.view(np.uint8)[int(random.integers(0, changed.nbytes))] ^= np.uint8(1 << random.integers(0, 8))
    elif kind == 2:
        changed[int(random.integers(0, changed.size))] = changed[int(random.integers(0, changed.size))]
    else:
        info: Any = np.finfo(array.dtype) if array.dtype.kind == "f" else np.iinfo(array.dtype)
        changed[int(random.integers(0, changed.size))] = random.choice(
            np.array([info.min, info.max, 0, 1], array.dtype)
        )
    return changed


def check_message(message: str) -> None:
    assert message
    assert "\n" not in message
    assert len(message) < 500


def try_snapshot(seed: int) -> bool:
    """Restore a forged snapshot and route with it; return whether it was refused."""
    random = np.random.default_rng([seed, 1])
    scheme = SCHEMES[seed % len(SCHEMES)]
    sender = Sender(scheme, 3, half_life=[None, 300, "auto"][seed % 3], choices=2 if scheme == "greedy" else None)
    stream = zipf(1.1, 100, 2500, seed=seed % 7) + np.arange(2500) // 600
    weights = random.integers(0, 50, 2500) if random.random() < 0.3 else None
    sender.route(stream[:1500], None if weights is None else weights[:1500])
    header, arrays = open_snapshot(sender.snapshot())
    honest = random.random() < 0.9
    for _ in range(int(random.integers(1, 4))):
        if random.random() < 0.5:
            header = change_value(random, header) if isinstance(header, dict) else header
        else:
            name = str(random.choice(list(arrays)))
            arrays[name] = change_array(random, arrays[name])
    if not isinstance(header, dict):
        honest, arrays = False, {}
    forged = seal_snapshot(header, arrays, honest=honest)
    try:
        restored = Sender.restore(forged)
    except SnapshotError as error:
        check_message(str(error))
        return True
    follow(restored, random, stream)
    return False


def follow(sender: Sender, random: np.random.Generator, stream: Any) -> None:
    """Route enough for a wrong state to show: the old hot key and a new one, through reviews, fades and take-overs.

    Whatever a snapshot says that is not refused, the sender keeps its promises from there on, and a snapshot of it
    describes it.
    """
    hot = sender.head()[0][0] if sender.head() else int(stream[0])
    routed_since: Counter[int] = Counter()
    for batch, key in enumerate((hot, hot, -7, hot)):
        keys = np.concatenate([np.full(1500, key), random.integers(1000 * batch, 1000 * batch + 800, 500), stream])
        random.shuffle(keys)
        before, loads = sender.messages, sender.loads
        if before + keys.size > LARGEST_TOTAL:  # a number that no sender reaches; its own snapshot would be refused
            return
        twin = Sender.restore(sender.snapshot())
        try:
            routed = sender.route(keys)
        except InputError as error:  # any sender says so when it has counted as much as it can count
            check_message(str(error))
            if int(loads.sum()) + keys.size > LARGEST_TOTAL:
                return
            raise
        assert 0 <= routed.min() <= routed.max() < sender.workers
        assert sender.messages == before + keys.size
        assert (twin.route(keys) == routed).all()
        assert twin.snapshot() == sender.snapshot()
        if not isinstance(sender.settings.half_life, int):
            assert (sender.loads - loads == np.bincount(routed, minlength=sender.workers)).all()
        if sender.heavy_hitters is not None and sender.settings.half_life is None:
            routed_since.update(keys.tolist())
            for frequent, count in routed_since.most_common(200):
                assert sender.heavy_hitters.bounds(frequent)[1] >= count
        head = sender.head()
        assert len({hot for hot, _, _ in head}) == len(head)


def try_plan(seed: int) -> bool:
    """Read a forged plan and route with it; return whether it was refused."""
    random = np.random.default_rng([seed, 2])
    stream = zipf(1.4, 100, 2000, seed=seed % 7)
    content: Any = json.loads(plan(stream, 3).to_json())
    for _ in range(int(random.integers(1, 4))):
        content = change_value(random, content)
    try:
        made = Plan.from_json(json.dumps(content))
    except InputError as error:
        check_message(str(error))
        return True
    routed = made.route(stream)
    assert 0 <= routed.min() <= routed.max() < made.workers
    assert Plan.from_json(made.to_json()) == made
    repr(made)
    return False


def main(tries: int, first: int) -> int:
    """Try so many forged snapshots and as many plans; return 1 if one raised anything but the error for it."""
    wrong = 0
    for what, attempt in (("snapshots", try_snapshot), ("plans", try_plan)):
        refused, failed = 0, []
        for seed in range(first, first + tries):
            try:
                refused += attempt(seed)
            except Exception:
                failed.append(seed)
                if len(failed) <= 3:
                    traceback.print_exc()
        wrong += len(failed)
        print(f"{tries} forged {what}: {refused} refused in one line, {tries - refused - len(failed)} still valid, "
              f"{len(failed)} raised something else{f': {failed[:20]}' if failed else ''}")  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    given = [int(float(text)) for text in sys.argv[1:3]]
    sys.exit(main(*(given + [2000, 0][len(given) :])))
