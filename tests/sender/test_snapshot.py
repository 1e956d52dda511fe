"""Snapshots: what was written can be read; everything else is refused in one line."""

import dataclasses

import numpy as np
import pytest

import forgery
from keyspread import Sender
from keyspread.errors import SnapshotError
from keyspread.sender.snapshot import FRAME
from keyspread.streams import zipf


@pytest.fixture(scope="module")
def snapshot():
    sender = Sender("d-choices", 5, half_life=1000)
    sender.route(zipf(1.2, 200, 3000))
    return sender.snapshot()


def refused(data):
    with pytest.raises(SnapshotError) as caught:
        Sender.restore(data)
    message = str(caught.value)
    assert message
    assert "\n" not in message
    return message


def test_one_changed_byte_anywhere_is_seen(snapshot):
    for at in range(len(snapshot)):
        changed = bytearray(snapshot)
        changed[at] ^= 1 << (at % 8)
        message = refused(bytes(changed))
        assert "not a snapshot" in message if at < 4 else "damaged" in message


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 11, 12, 13, 100, -1])
def test_a_snapshot_cut_short_is_seen(snapshot, length):
    refused(snapshot[:length])


def test_the_message_for_damage_says_what_to_do(snapshot):
    assert refused(snapshot[:-7]) == (
        f"a snapshot of a keyspread Sender of {len(snapshot) - 7} bytes is damaged or cut short: "
        "use an earlier one, or start without one"
    )


def test_foreign_bytes_are_named():
    assert refused(b"PK\x03\x04 something else") == (
        "not a snapshot of a keyspread Sender: it starts with b'PK\\x03\\x04', not b'KSND'; "
        "pass what Sender.snapshot() returned"
    )


@pytest.mark.parametrize(
    ("other", "name"), [("text", "str"), (None, "NoneType"), (5, "int"), ([1, 2], "list"), (Sender("key", 2), "Sender")]
)
def test_another_type_is_named(other, name):
    assert refused(other) == (
        f"a snapshot of a keyspread Sender is bytes, got {name}; pass what Sender.snapshot() returned"
    )


def test_bytes_of_any_kind_are_read(snapshot):
    for same in (snapshot, bytearray(snapshot), memoryview(snapshot)):
        assert Sender.restore(same).snapshot() == snapshot


def test_another_format_says_which(snapshot):
    newer = dataclasses.replace(FRAME, version=99).seal(FRAME.open(snapshot))
    assert refused(newer) == (
        f"a snapshot of a keyspread Sender has format 99, this keyspread reads {FRAME.version}: "
        "use the version of keyspread that wrote it"
    )


def test_a_snapshot_of_weighted_messages_is_the_same_bytes_too():
    sender = Sender("w-choices", 4)
    sender.route(np.arange(3000), np.arange(3000) % 9)  # counters are taken over, so there is a heap
    data = sender.snapshot()
    assert Sender.restore(data).snapshot() == data


def test_everything_that_can_be_asked_is_restored():
    sender = Sender("greedy", 7, source=4, seed=2**63, threshold=0.05, counters=77, choices=3)
    sender.route(zipf(1.5, 500, 5000))
    copy = Sender.restore(sender.snapshot())
    for name in ("scheme", "workers", "settings", "messages", "choices"):
        assert getattr(copy, name) == getattr(sender, name)
    assert copy.loads.tolist() == sender.loads.tolist()
    assert copy.head() == sender.head()
    assert copy.heavy_hitters.top(77) == sender.heavy_hitters.top(77)
    assert repr(copy) == repr(sender)


# A right checksum, but content that no sender has written.


@pytest.mark.parametrize("seed", range(40))
def test_forged_content_is_refused_or_harmless(seed):
    forgery.try_snapshot(seed)


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (("messages",), -1, "messages must be at least 0, got -1"),
        (("messages",), 1.5, "messages must be a whole number, got 1.5"),
        (("messages",), True, "messages must be a whole number, got True"),
        (("turn",), False, "turn must be a whole number, got False"),
        (("settings", "source"), False, "source must be a whole number, got False"),
        (("settings", "seed"), False, "seed must be a whole number, got False"),
        (("settings", "fixed_choices"), True, "choices must be a whole number, got True"),
        (("settings", "threshold"), True, "threshold must be a number, got True"),
        (("settings", "half_life"), 300.0, "settings cannot be right"),
        (("arrays", "mark"), True, "mark must be a whole number, got True"),
        (("unit",), float("nan"), "unit must be a finite number, got nan"),
        (("choices",), 6, "choices must be at most 5, got 6"),
        (("scheme",), "planned", "planned needs the whole batch"),
        (("settings", "workers"), 2**16, "loads cannot be right"),
        (("settings", "workers"), 2**31 - 1, "workers must be at most 100000, got 2147483647"),
        (("settings", "counters"), 3, "counters 3 is too small"),
        (("settings", "half_life"), "soon", "half_life must be a number of messages"),
        (("arrays", "loads"), 10**12, "loads must be at most"),
        (("arrays", "other"), 1, "'other'"),
    ],
)
def test_the_reason_is_in_the_message(snapshot, place, value, reason):
    header, arrays = forgery.open_snapshot(snapshot)
    inner = header
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    message = refused(forgery.seal_snapshot(header, arrays, honest=False))
    assert message.startswith("a snapshot of a keyspread Sender has a right checksum but wrong content (")
    assert reason in message


@pytest.mark.parametrize("name", ["margin", "unit"])
def test_a_float_that_is_written_as_a_whole_number_is_a_float(snapshot, name):
    """JSON has only numbers. As an int, 2^70 would be too large for a kernel."""
    header, arrays = forgery.open_snapshot(snapshot)
    header[name] = 2**70
    sender = Sender.restore(forgery.seal_snapshot(header, arrays))
    assert sender.route(np.arange(10)).size == 10


def test_false_is_not_zero_counters():
    """In Python false is equal to 0, and partial-key has 0 counters."""
    header, arrays = forgery.open_snapshot(Sender("partial-key", 5).snapshot())
    header["settings"]["counters"] = False
    assert "settings cannot be right" in refused(forgery.seal_snapshot(header, arrays))


@pytest.mark.parametrize("size", [0, -1, 5, 2**40])
def test_a_list_without_workers_or_with_too_many_is_refused(size):
    """A hot key with an empty list would get worker -1."""
    sender = Sender("per-key", 4)
    sender.route(zipf(1.5, 500, 3000))
    header, arrays = forgery.open_snapshot(sender.snapshot())
    arrays["list_sizes"][0] = size
    assert "sizes of lists cannot be right" in refused(forgery.seal_snapshot(header, arrays))


def test_a_ring_that_points_elsewhere_is_refused(snapshot):
    """A kernel would follow it, outside of its arrays or without end."""
    header, arrays = forgery.open_snapshot(snapshot)
    sender = Sender("w-choices", 5)
    sender.route(np.arange(5000) % 60)
    header, arrays = forgery.open_snapshot(sender.snapshot())
    assert arrays["queued"].size > 2
    for wrong in (-1, 50, 10**6, int(arrays["queued"][1])):
        forged = {name: array.copy() for name, array in arrays.items()}
        forged["queued"][0] = wrong
        assert "the queue cannot be right" in refused(forgery.seal_snapshot(header, forged))
    forged = {name: array.copy() for name, array in arrays.items()}
    forged["levels"][0] = 10**6
    assert "levels cannot be right" in refused(forgery.seal_snapshot(header, forged))
    Sender.restore(forgery.seal_snapshot(header, arrays))  # unchanged, it is read


def test_no_more_is_unpacked_than_the_header_announces(snapshot):
    header, arrays = forgery.open_snapshot(snapshot)
    more = arrays | {"mark": np.zeros(10_000_000, np.int64)}
    assert "the length of the content" in refused(forgery.seal_snapshot(header, more, honest=False))
