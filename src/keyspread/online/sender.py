"""One source's sender: it decides for every message which worker gets it, from what it sent itself and nothing else."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keyspread import checks
from keyspread.heavy_hitters import HeavyHitter, Mark, SpaceSaving
from keyspread.kernels.balance import new_balance, regroup
from keyspread.kernels.capacities import new_fleet
from keyspread.kernels.routing import Identity, forget, new_candidates
from keyspread.online import decay, hotness
from keyspread.online.settings import Settings
from keyspread.schemes import Scheme, State, online_scheme

_MASK = 0xFFFFFFFFFFFFFFFF
_NO_SHARES = np.empty(0, np.float64)


class Sender:
    """Routes hashes to workers 0 … n-1: the same for the same seed, source and messages, in batches or one by one.

    `scheme` is one of `SCHEMES`. Parameters that a scheme does not use are accepted. `threshold` is the share from
    which a key is hot (default 1/(5n)), `tolerance` the imbalance that D-Choices allows itself (the paper's
    epsilon), `capacity` the number of counters (default 2/threshold), `choices` the fixed d of `greedy`,
    `half_life` a number of messages after which counts and loads are halved (None: never; "auto": old counts lose
    weight when the hot keys change, and only then), `capacities` one number a worker, where they differ: least loaded
    then means least load per capacity, and a worker is a candidate as often as its capacity says.

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
        tolerance: float = 1e-4,
        capacity: int | None = None,
        choices: int | None = None,
        half_life: float | str | None = None,
        capacities: Sequence[float] | None = None,
    ) -> None:
        self._scheme: Scheme = online_scheme(scheme)
        settings = Settings.of(
            self._scheme,
            workers,
            source=source,
            seed=seed,
            threshold=threshold,
            tolerance=tolerance,
            capacity=capacity,
            choices=choices,
            half_life=half_life,
            capacities=capacities,
        )
        self._state = new_state(self._scheme, settings)
        self._review_at = 0
        self._fade_at = self._fade_every()
        self._mark: Mark | None = None  # where the epoch began, with half_life="auto"
        self._shares = _NO_SHARES  # the head for which `choices` was computed

    def route(self, hashes: npt.NDArray[Any], weights: npt.NDArray[Any] | None = None) -> npt.NDArray[np.int32]:
        """Give the worker of every message, and remember what that did to the loads.

        With `weights` (whole numbers: bytes, or microseconds of work) the load of a worker is their sum, and a key is
        hot by its share of that.

        >>> Sender("shuffle", workers=3, source=0).route(np.array([5, 5, 5, 5])).size
        4
        """
        keys = checks.hashes(hashes).view(np.uint64)
        weighed = None if weights is None else checks.weights(weights, keys.size)
        if weighed is None and self._state.settings.capacities is not None:
            weighed = np.ones(keys.size, np.int64)
        out = np.empty(keys.size, np.int32)
        done = 0
        while done < keys.size:
            self._pause()
            stop = min(keys.size, done + self._until_pause())
            if weighed is None:
                self._scheme.route(self._state, keys[done:stop], out[done:stop])
            else:
                self._scheme.route_uneven(self._state, keys[done:stop], weighed[done:stop], out[done:stop])
            self._state.messages += stop - done
            done = stop
        return out

    # Between two pauses neither `choices` nor `margin` changes, so a kernel runs undisturbed. When a pause is due
    # depends on the number of messages alone, so batches of any size pause at the same messages.

    def _until_pause(self) -> int:
        due = [at for at in (self._review_at, self._fade_at) if at > self._state.messages]
        return min(due) - self._state.messages if due else 1 << 62

    def _pause(self) -> None:
        if self._fade_at and self._state.messages >= self._fade_at:
            self._fade()
        if self._scheme.tracks_head and self._state.messages >= self._review_at:
            self._review()

    def _fade_every(self) -> int:
        """Give the messages from one fading to the next, 0 if there is none."""
        settings = self._state.settings
        if settings.half_life == "auto":
            return decay.epoch(settings) if self._scheme.tracks_head else 0
        return int(settings.half_life or 0)

    def _fade(self) -> None:
        self._fade_at += self._fade_every()
        if self._state.settings.half_life == "auto":
            self._fade_by_change()
        else:
            self._fade_all()

    def _fade_all(self) -> None:
        state = self._state
        state.balance.loads[:] >>= 1
        regroup(state.balance)
        state.levels_are_current = True
        if state.heavy_hitters is not None:
            state.heavy_hitters.fade()
            state.candidates.least[:] >>= 1
            self._scheme.faded(state)

    def _fade_by_change(self) -> None:
        hitters = self._state.heavy_hitters
        assert hitters is not None
        if self._mark is not None:
            halvings = decay.halvings(hitters, self._mark)
            if halvings:
                hitters.fade_until(self._mark, halvings)
                self._scheme.faded(self._state)
                self._review_at = self._state.messages
        self._mark = hitters.mark()

    def _review(self) -> None:
        """Look at the head again: its shares have moved by a sixteenth at most since the last time, but for a fade."""
        state = self._state
        assert state.heavy_hitters is not None
        total, state.unit = state.heavy_hitters.total, state.heavy_hitters.unit
        messages = round(total / state.unit)
        self._review_at = state.messages + max(64, messages // 16)
        state.margin = hotness.margin(state.settings.threshold * messages)
        if self._scheme.sizes_each_key:
            self._scheme.review(state)
            return
        counts = state.heavy_hitters.counts()
        least = state.settings.threshold * total + state.margin * state.unit
        shares = counts[counts >= least] / max(1, total)
        if _distance(shares, self._shares) < 1 / 256:
            return  # d would hardly differ, and finding it costs more than routing many messages
        self._shares = shares
        choices = self._scheme.choices(state.settings, shares)
        if choices != state.choices:
            state.choices = choices
            forget(state.candidates)

    @property
    def scheme(self) -> str:
        """The canonical name of the scheme."""
        return self._scheme.name

    @property
    def workers(self) -> int:
        """The number of workers."""
        return self._state.settings.workers

    @property
    def settings(self) -> Settings:
        """What this sender was told, with every default filled in."""
        return self._state.settings

    @property
    def loads(self) -> npt.NDArray[np.int64]:
        """What was sent to each worker, messages or their weights (faded, with a half-life in messages), as a copy."""
        return self._state.balance.loads.copy()

    @property
    def messages(self) -> int:
        """How many messages were routed, never faded."""
        return self._state.messages

    @property
    def choices(self) -> int:
        """How many workers a hot key may use now (where there is no head: any key; where keys differ: the most)."""
        return self._state.choices

    def memory(self) -> dict[str, int]:
        """Weigh what is kept, in bytes: the loads, the heavy hitters, and working copies that make routing quick.

        >>> Sender("w-choices", workers=100).memory()["loads"]
        800
        """
        state = self._state
        balance = state.balance
        counters = () if state.heavy_hitters is None else state.heavy_hitters.arrays
        copies: list[npt.NDArray[Any]] = [balance.levels, balance.digests, balance.scalars, *state.fleet]
        copies += state.candidates if self._scheme.tracks_head else ()
        return {
            "loads": balance.loads.nbytes,
            "heavy_hitters": sum(array.nbytes for array in counters),
            "working_copies": sum(array.nbytes for array in copies),
        }

    def head(self) -> list[HeavyHitter]:
        """Give every key whose share may be the threshold or more: [(hash, lower, upper), …], hottest first.

        No key at or above the threshold is missing. Empty for schemes that do not look for hot keys.
        """
        hitters = self._state.heavy_hitters
        return hitters.head(self._state.settings.threshold) if hitters is not None else []

    @property
    def heavy_hitters(self) -> SpaceSaving | None:
        """The counters behind `head`, None where the scheme has none."""
        return self._state.heavy_hitters

    def snapshot(self) -> bytes:
        """Give all that is needed to go on exactly as if never interrupted: at most about 50 bytes a counter."""
        from keyspread.online import snapshot

        return snapshot.write(self)

    @classmethod
    def restore(cls, data: bytes) -> "Sender":
        """Make the sender that wrote the snapshot; damaged or foreign bytes are refused.

        >>> sender = Sender("w-choices", workers=4)
        >>> _ = sender.route(np.arange(100))
        >>> copy = Sender.restore(sender.snapshot())
        >>> bool((copy.route(np.arange(50)) == sender.route(np.arange(50))).all())
        True
        """
        from keyspread.online import snapshot

        return snapshot.read(data)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a snapshot."""
        return Sender.restore, (self.snapshot(),)

    def __repr__(self) -> str:
        """Show who this is and how far it is."""
        settings = self._state.settings
        return (
            f"Sender({self.scheme!r}, workers={settings.workers}, source={settings.source}, "
            f"seed={settings.seed}, messages={self.messages})"
        )


def new_state(scheme: Scheme, settings: Settings) -> State:
    """Make the state of a sender that has sent nothing."""
    seed = _mixed(settings.seed)
    own = _mixed(seed ^ _mixed(settings.source + 1))
    state = State(
        settings=settings,
        identity=Identity(np.uint64(seed), own % settings.workers),
        balance=new_balance(settings.workers),
        fleet=new_fleet(settings.workers, settings.capacities),
        choices=scheme.choices(settings, _NO_SHARES),
        turn=own % settings.workers,
    )
    if scheme.tracks_head:
        state.heavy_hitters = SpaceSaving(settings.capacity)
        most_hot = int(1 / settings.threshold) + 1
        state.candidates = new_candidates(settings.workers, settings.capacity, most_hot)
    return state


def _mixed(x: int) -> int:
    """Give the first number of SplitMix64 with this seed; in Python, because it runs once a sender."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def _distance(shares: npt.NDArray[np.float64], others: npt.NDArray[np.float64]) -> float:
    """Give the sum of the differences, hottest with hottest; what one side does not have counts as 0."""
    common = min(shares.size, others.size)
    return float(np.abs(shares[:common] - others[:common]).sum() + shares[common:].sum() + others[common:].sum())
