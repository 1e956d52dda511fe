"""An object that two threads change at the same time says so, and stays as it was."""

import copy
import pickle
import threading

import numpy as np
import pytest

from keyspread import KeyspreadError, Sender, SpaceSaving
from keyspread.errors import ThreadError


class Pause:
    """Stops the first thread in the middle of a call until the others are done."""

    def __init__(self, monkeypatch, owner, name):
        self.reached, self.proceed = threading.Event(), threading.Event()
        inner = getattr(owner, name)

        def paused(*values):
            if not self.reached.is_set():
                self.reached.set()
                assert self.proceed.wait(60)
            return inner(*values)

        monkeypatch.setattr(owner, name, paused)

    def run(self, first, meanwhile):
        """Call `meanwhile` while another thread is in the middle of `first`."""
        thread = threading.Thread(target=first)
        thread.start()
        assert self.reached.wait(60)
        try:
            return meanwhile()
        finally:
            self.proceed.set()
            thread.join(60)


def refused(call):
    with pytest.raises(ThreadError) as caught:
        call()
    assert isinstance(caught.value, KeyspreadError)
    return str(caught.value)


def test_a_second_thread_in_route_is_refused_and_changes_nothing(monkeypatch):
    sender = Sender("d-choices", 5)
    pause = Pause(monkeypatch, sender, "_routed")
    message = pause.run(lambda: sender.route(np.arange(100)), lambda: refused(lambda: sender.route(np.arange(7))))
    assert message == (
        "a Sender was used by two threads at the same time: "
        "use one Sender per thread, each with its own source, or put a lock around it"
    )
    assert (sender.messages, int(sender.loads.sum())) == (100, 100)
    assert sender.route(np.arange(3)).size == 3  # afterwards it works


def test_a_second_thread_in_offer_is_refused(monkeypatch):
    summary = SpaceSaving(5)
    pause = Pause(monkeypatch, summary, "make_room_for_weights")

    def meanwhile():
        for call in (
            lambda: summary.offer(1),
            lambda: summary.offer_many(np.arange(3)),
            summary.fade,
            lambda: summary.fade_until(None, 1),
        ):
            assert refused(call).startswith("a SpaceSaving was used by two threads")

    pause.run(lambda: summary.offer(7, 10), meanwhile)
    assert summary.top(5) == [(7, 10, 10)]


@pytest.mark.parametrize("read", [lambda s: s.loads.sum(), lambda s: s.head(), lambda s: s.snapshot()])
def test_a_reader_waits_until_a_batch_is_complete(monkeypatch, read):
    sender = Sender("w-choices", 3)
    pause = Pause(monkeypatch, sender, "_routed")
    results = []
    reader = threading.Thread(target=lambda: results.append(read(sender)))

    def meanwhile():
        reader.start()
        assert not results

    pause.run(lambda: sender.route(np.arange(50)), meanwhile)
    reader.join(60)
    assert results == [read(sender)]


def test_a_change_waits_until_a_reader_is_done(monkeypatch):
    sender, summary = Sender("w-choices", 3), SpaceSaving(5)
    sender.route(np.arange(50))
    for change, read, pause in (
        (lambda: sender.route(np.arange(7)), sender.snapshot, Pause(monkeypatch, sender.heavy_hitters, "save_state")),
        (lambda: summary.offer(7), lambda: summary.top(3), Pause(monkeypatch, summary, "_hottest_first")),
    ):
        problems = []

        def changed(change=change, problems=problems):
            try:
                change()
            except Exception as problem:
                problems.append(problem)

        writer = threading.Thread(target=changed)
        pause.run(read, writer.start)
        writer.join(60)
        assert not writer.is_alive()
        assert not problems
    assert (sender.messages, summary.total) == (57, 1)


@pytest.mark.parametrize("travel", [lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy])
def test_copies_have_guards_of_their_own(monkeypatch, travel):
    sender, summary = Sender("per-key", 5), SpaceSaving(5)
    sender.route(np.arange(100))
    summary.offer_many(np.arange(100))
    pause = Pause(monkeypatch, sender, "_routed")
    twin = travel(sender)
    pause.run(lambda: sender.route(np.arange(10)), lambda: twin.route(np.arange(10)))
    assert twin.snapshot() == sender.snapshot()
    other = travel(summary)
    other.offer(5)
    assert (summary.total, other.total) == (100, 101)
