"""The sender of one source: it picks the worker of every message, from nothing but what it has routed itself."""

from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.checks import OneThread
from keyspread.heavy_hitters import HeavyHitter, SpaceSaving
from keyspread.kernels.balance import regroup
from keyspread.kernels.routing import clear_candidates
from keyspread.sender import decay, snapshot
from keyspread.sender.decay import fade_every
from keyspread.sender.registry import online_scheme, resolve
from keyspread.sender.schemes import Scheme
from keyspread.sender.settings import TOLERANCE, SenderSettings
from keyspread.sender.state import State, margin

_NO_SHARES = np.empty(0, np.float64)


class Sender:
    """Routes hashes to workers 0 … n-1: the same for the same seed, source and messages, in batches or one by one.

    `scheme` is one of `SCHEMES`. An option that does not apply to the scheme is refused.

    - `source`: the number of this sender; `seed`: decides the candidates of every key, the same for all senders
    - `threshold`: the minimum share of a hot key (default 1/(5n)); of schemes that treat hot keys differently
    - `tolerance`: the imbalance that D-Choices and per-key allow (the paper's epsilon; default 1e-4)
    - `counters`: how many keys are counted to find the hot ones (default 2/threshold)
    - `choices`: the number of workers per hot key of `greedy`
    - `half_life`: a number of messages after which counts and loads are halved; None: never; "auto": old counts lose
      weight when the hot keys change, and only then

    A sender belongs to one thread at a time: `route` raises a ThreadError while another thread is in it. Use one sender
    per thread, each with its own `source`. Reading (`loads`, `head`, `snapshot`, …) waits until `route` has returned.

    >>> from keyspread import hash_keys
    >>> sender = Sender("d-choices", workers=4, source=3, seed=7)
    >>> sender.route(hash_keys(["a", "b", "a", "a"])).dtype
    dtype('int32')
    >>> sender.messages, int(sender.loads.sum())
    (4, 4)
    """

    def __init__(
        self,
        scheme: str,
        workers: int,
        *,
        source: int = 0,
        seed: int = 0,
        threshold: float | None = None,
        tolerance: float = TOLERANCE,
        counters: int | None = None,
        choices: int | None = None,
        half_life: float | str | None = None,
    ) -> None:
        self._scheme: Scheme = online_scheme(scheme)
        options = resolve(scheme).require(
            {
                "threshold": threshold,
                "tolerance": None if tolerance == TOLERANCE else tolerance,  # the default applies to any scheme
                "counters": counters,
                "choices": choices,
                "half_life": half_life,
            }
        )
        settings = SenderSettings.of(self._scheme, workers, source=source, seed=seed, **options)
        self._state = State.of(settings, self._scheme.choices(settings, _NO_SHARES))
        self._state.fade_at = fade_every(self._scheme, settings)
        self._one_thread = _guard()

    @classmethod
    def _with_state(cls, scheme: Scheme, state: State) -> "Sender":
        sender = cls.__new__(cls)
        sender._scheme, sender._state, sender._one_thread = scheme, state, _guard()
        return sender

    def route(self, hashes: npt.NDArray[Any], weights: npt.NDArray[Any] | None = None) -> npt.NDArray[np.int32]:
        """Return the worker of every message, and add the messages to the loads.

        With `weights` (whole numbers: bytes, or microseconds of work) the load of a worker is the sum of the weights,
        and a key is hot by its share of that sum.

        >>> Sender("shuffle", workers=3, source=0).route(np.array([5, 5, 5, 5])).size
        4
        """
        keys = checks.hashes(hashes).view(np.uint64)
        weighed = None if weights is None else checks.weights(weights, keys.size)
        with self._one_thread:
            added = keys.size if weighed is None else checks.weight_of(weighed)
            checks.total("the sum of all loads", int(self._state.balance.loads.sum()), added)
            return self._routed(keys, weighed)

    def _routed(self, keys: npt.NDArray[np.uint64], weighed: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int32]:
        out = np.empty(keys.size, np.int32)
        done = 0
        while done < keys.size:
            self._pause()
            if weighed is None:
                stop = min(keys.size, done + self._until_pause(alone=self._state.mark is not None))
                routed = self._scheme.route(self._state, keys[done:stop], out[done:stop])
            else:
                stop = min(keys.size, done + self._until_pause())
                self._scheme.route_weighted(self._state, keys[done:stop], weighed[done:stop], out[done:stop])
                routed = stop - done
            self._state.messages += routed
            done += routed
        return out

    # Between two pauses neither `choices` nor `margin` changes, so a kernel runs undisturbed. When a pause is due
    # depends only on the number of messages, so batches of any size pause at the same messages.

    def _until_pause(self, alone: bool = False) -> int:
        """Return the messages until the next pause; `alone`: the scheme itself stops where counts must fade."""
        state = self._state
        due = [at for at in (state.review_at, 0 if alone else state.fade_at) if at > state.messages]
        return min(due) - state.messages if due else 1 << 62

    def _pause(self) -> None:
        state = self._state
        if state.fade_at and state.messages >= state.fade_at:
            self._fade()
        if self._scheme.tracks_head and state.messages >= state.review_at:
            self._review()

    def _fade(self) -> None:
        self._state.fade_at += fade_every(self._scheme, self._state.settings)
        if self._state.settings.half_life == "auto":
            self._fade_by_change()
        else:
            self._fade_all()

    def _fade_all(self) -> None:
        """Halve all loads and counts."""
        state = self._state
        state.balance.loads[:] >>= 1
        regroup(state.balance)
        state.levels_are_current, state.shown_at = True, -1
        if state.heavy_hitters is not None:
            state.heavy_hitters.fade()
            state.candidates.least[:] >>= 1
            self._scheme.find_counters(state)

    def _fade_by_change(self) -> None:
        """Halve old counts as often as the change in the last epoch calls for, and start a new epoch."""
        state, hitters = self._state, self._state.heavy_hitters
        assert hitters is not None
        if state.mark is not None:
            halvings = decay.halvings(hitters, state.mark)
            if halvings:
                hitters.fade_until(state.mark, halvings)
                self._scheme.find_counters(state)
                state.review_at = state.messages
        state.mark = hitters.mark()

    def _review(self) -> None:
        """Compute `margin` and `choices` from the head of now.

        A review is due when the messages have grown by a sixteenth: unless counts fade, shares change by no more than
        that between two reviews.
        """
        state = self._state
        assert state.heavy_hitters is not None
        total, state.unit = state.heavy_hitters.total, state.heavy_hitters.unit
        messages = round(total / state.unit)
        state.review_at = state.messages + max(64, messages // 16)
        state.margin = margin(state.settings.threshold * messages)
        if self._scheme.sizes_each_key:
            self._scheme.review(state)
            return
        counts = state.heavy_hitters.counts()
        least = state.settings.threshold * total + state.margin * state.unit
        shares = counts[counts >= least] / max(1, total)
        if _distance(shares, state.head_shares) < 1 / 256:
            return  # d would hardly differ, and finding it costs more than routing many messages
        state.head_shares = shares
        choices = self._scheme.choices(state.settings, shares)
        if choices != state.choices:
            state.choices = choices
            clear_candidates(state.candidates)

    @property
    def scheme(self) -> str:
        """The canonical name of the scheme."""
        return self._scheme.name

    @property
    def workers(self) -> int:
        """The number of workers."""
        return self._state.settings.workers

    @property
    def settings(self) -> SenderSettings:
        """The settings of this sender, with every default filled in."""
        return self._state.settings

    @property
    def loads(self) -> npt.NDArray[np.int64]:
        """The messages sent to each worker, or their weights, as a copy. A half-life in messages halves them too."""
        with self._one_thread.reading:
            return self._state.balance.loads.copy()

    @property
    def messages(self) -> int:
        """The number of messages routed; a half-life does not change it."""
        return self._state.messages

    @property
    def choices(self) -> int:
        """How many workers a hot key may use now; without a head, any key; where keys differ, the hottest."""
        return self._state.choices

    def memory(self) -> dict[str, int]:
        """Return the memory in bytes of the loads, the heavy hitters, and the working copies that speed up routing.

        >>> Sender("w-choices", workers=100).memory()["loads"]
        800
        """
        state = self._state
        balance = state.balance
        counters = () if state.heavy_hitters is None else state.heavy_hitters.arrays
        copies: list[npt.NDArray[Any]] = [balance.levels, balance.digests]
        copies += state.candidates if self._scheme.tracks_head else ()
        copies += state.weighted_balance[1:] if state.weighted_balance is not None else ()  # it shares the loads
        return {
            "loads": balance.loads.nbytes,
            "heavy_hitters": sum(array.nbytes for array in counters),
            "working_copies": sum(array.nbytes for array in copies),
        }

    def head(self) -> list[HeavyHitter]:
        """Return every key whose share may be the threshold or more: [(hash, lower, upper), …], hottest first.

        No key at or above the threshold is missing. With half_life="auto", a key may be missing if its share is at
        most 1 / counters + `heavy_hitters.surplus` / `heavy_hitters.total`; the surplus is 0 until counts have faded.
        The list is empty for schemes that do not look for hot keys.
        """
        hitters = self._state.heavy_hitters
        with self._one_thread.reading:
            return hitters.head(self._state.settings.threshold) if hitters is not None else []

    @property
    def heavy_hitters(self) -> SpaceSaving | None:
        """The counters behind `head`; None if the scheme has none."""
        return self._state.heavy_hitters

    def snapshot(self) -> bytes:
        """Return all that `restore` needs to resume as if never interrupted: at most about 50 bytes per counter."""
        with self._one_thread.reading:
            return snapshot.to_bytes(self._scheme, self._state)

    @classmethod
    def restore(cls, data: bytes) -> "Sender":
        """Return the sender that wrote the snapshot; damaged or foreign bytes are refused.

        >>> sender = Sender("w-choices", workers=4)
        >>> _ = sender.route(np.arange(100))
        >>> copy = Sender.restore(sender.snapshot())
        >>> bool((copy.route(np.arange(50)) == sender.route(np.arange(50))).all())
        True
        """
        return cls._with_state(*snapshot.from_bytes(data))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a snapshot."""
        return Sender.restore, (self.snapshot(),)

    def __repr__(self) -> str:
        """Show the scheme, the identity and the number of messages routed."""
        settings = self._state.settings
        return (
            f"Sender({self.scheme!r}, workers={settings.workers}, source={settings.source}, "
            f"seed={settings.seed}, messages={self.messages})"
        )


def _guard() -> OneThread:
    return OneThread("a Sender", "use one Sender per thread, each with its own source, or put a lock around it")


def _distance(shares: npt.NDArray[np.float64], others: npt.NDArray[np.float64]) -> float:
    """Return the sum of the differences, hottest with hottest; what one side does not have counts as 0."""
    common = min(shares.size, others.size)
    return float(np.abs(shares[:common] - others[:common]).sum() + shares[common:].sum() + others[common:].sum())
