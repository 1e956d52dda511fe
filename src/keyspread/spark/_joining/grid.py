"""How a hot key is cut, and which worker gets which piece.

A key may be cut on both sides, into a × b pieces: a left row goes to the b pieces of its part, a right row to the a
pieces of its part. So each pair of partners meets in exactly one piece.

A key that is cut on one side only is poured: its parts are as large as the room that is left on their workers. A key
that is cut on both sides has nearly equal parts. Parts are whole rows.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from keyspread.kernels.planned_routing import SLOTS
from keyspread.spark._joining.counting import Work
from keyspread.spark._joining.keys import Kind

Floats = npt.NDArray[np.float64]

_SLACK = 1.02  # of the even work: a worker may exceed it so far for the sake of a whole key
_EVEN_ENOUGH = 1.03  # of the even work: of ways to cut a key that leave no worker with more, the fewest copies win
_AS_EVEN = 1.01  # if no way is even enough: of those that are about as good as the best, the fewest copies win
_MOST_PIECES = 8  # of a key, per worker
_FINEST = 16  # pieces of a key, for each that its work needs at least
_LEAST_PIECE = 0.02  # of the even work: smaller room is left alone
_SHAPES = (1.0, 0.7, 1.4)  # of grids: more left parts and fewer right parts, or vice versa
_HALVINGS = 30  # of the room that the last row of a piece may take


@dataclass(frozen=True)
class Rows:
    """A hot key to place: its rows on either side, its own worker, and on which sides it may be cut."""

    left: int
    right: int
    own: int
    may_cut_left: bool
    may_cut_right: bool


@dataclass(frozen=True)
class Cut:
    """The pieces of a key: the shares of its left and right parts, and the worker of each piece, row by row."""

    left: tuple[float, ...]
    right: tuple[float, ...]
    workers: tuple[int, ...]


def may_cut(kind: Kind, has_condition: bool, left: int, right: int, for_any_rows: bool) -> tuple[bool, bool]:
    """Return whether the left and the right rows of a key may be cut so that the result stays exact.

    A row that is preserved must not be copied, unless it surely has partners: then a copy that finds none is dropped.
    Counts tell whether it has, but not if there is a further condition, or if the plan is `for_any_rows`, those that
    were not counted included.
    """
    if kind is Kind.INNER:
        return True, True
    if kind.has_left_columns_only:
        return True, False
    if kind is Kind.FULL and for_any_rows:
        return False, False
    matched = left > 0 and right > 0
    if for_any_rows or (has_condition and matched):
        return kind is Kind.LEFT, kind is Kind.RIGHT
    return left > 0, right > 0


def place(tail: Floats, hot: Sequence[Rows], work: Work) -> tuple[list[Cut], Floats]:
    """Cut hot keys and place their pieces; return the cuts and the work of each worker.

    Keys that fit somewhere stay whole, on the worker that Spark's hash gives them if there is room. The others are
    poured into the room that is left, those with most work first.
    """
    loads = tail.astype(float).copy()
    whole = work.of_key([key.left for key in hot], [key.right for key in hot])
    even = (float(loads.sum()) + float(whole.sum())) / loads.size
    cuts: dict[int, Cut] = {}
    order = np.argsort(-whole, kind="stable").tolist()
    for number in order:
        key, own = hot[number], float(whole[number])
        uncut = not (key.may_cut_left or key.may_cut_right)
        worker = key.own if loads[key.own] + own <= even * _SLACK else int(np.argmin(loads))
        if uncut or loads[worker] + own <= even * _SLACK:
            cuts[number] = Cut((1.0,), (1.0,), (worker,))
            loads[worker] += own
    for number in order:
        if number not in cuts:
            cuts[number], loads = _best(loads, even, hot[number], work)
            rest = float(sum(whole[other] for other in order if other not in cuts))
            even = max(even, (float(loads.sum()) + rest) / loads.size)
    return [cuts[number] for number in range(len(hot))], loads


def _best(loads: Floats, even: float, key: Rows, work: Work) -> tuple[Cut, Floats]:
    """Return the way to cut a key that copies the fewest rows, of those that leave the busiest worker with least work.

    Copies are work too, so the busiest worker tells whether a finer cut is worth its copies.
    """
    ways = list(_ways(loads, even, key, work))
    most = max(_EVEN_ENOUGH * even, _AS_EVEN * min(float(after.max()) for _, after in ways))
    fine = [(cut, after) for cut, after in ways if after.max() <= most]
    return min(fine, key=lambda way: (_copies(way[0], key), len(way[0].workers)))


def _copies(cut: Cut, key: Rows) -> int:
    return key.left * (len(cut.right) - 1) + key.right * (len(cut.left) - 1)


def _ways(loads: Floats, even: float, key: Rows, work: Work) -> Iterator[tuple[Cut, Floats]]:
    own = float(work.of_key(key.left, key.right))
    worker = int(np.argmin(loads))
    after = loads.copy()
    after[worker] += own
    yield Cut((1.0,), (1.0,), (worker,)), after
    if key.may_cut_left and key.left > 1:
        copied = min(key.right, 1) if work.matches_once else key.right
        workers, shares, after = _pour(loads, even, key.left, own - copied, copied)
        yield Cut(tuple(shares), (1.0,), tuple(workers)), after
    if key.may_cut_right and key.right > 1:
        workers, shares, after = _pour(loads, even, key.right, own - key.left, key.left)
        yield Cut((1.0,), tuple(shares), tuple(workers)), after
    if key.may_cut_left and key.may_cut_right and min(key.left, key.right) > 1:
        least = max(2, int(np.ceil(own / even)))
        most = min(_MOST_PIECES * loads.size, _FINEST * least) + 8
        steps = [least, *(loads.size * times for times in (1, 2) if least < loads.size * times <= most)]
        while steps[0] * 1.5 <= most:
            steps.insert(0, int(np.ceil(steps[0] * 1.5)))
        for pieces in sorted({*steps}):
            yield from _grids(loads, pieces, key, work)


def _pour(loads: Floats, even: float, rows: int, body: float, copied: float) -> tuple[list[int], list[float], Floats]:
    """Return workers and shares for a key of which the `rows` of one side are cut; their work is `body`.

    `copied` is the work that each piece repeats. A piece has whole rows: 100 rows cannot fill 200 workers.
    """
    order = np.argsort(loads, kind="stable")
    level, row = max(even, _level(loads[order] + copied, body)), body / rows
    least = max(_LEAST_PIECE * even, row)
    lower, upper = level, level + row + least
    for _ in range(_HALVINGS):
        middle = (lower + upper) / 2
        is_enough = _rows_that_fit(loads[order], middle - copied, row, least).sum() >= rows
        lower, upper = (lower, middle) if is_enough else (middle, upper)
    fit = _rows_that_fit(loads[order], upper - copied, row, least)
    amounts = np.diff(np.minimum(np.cumsum(fit), rows), prepend=0)
    if amounts.sum() < rows:  # copies alone fill every worker
        amounts[0] += rows - amounts.sum()
    takes_part = amounts > 0
    workers, amounts = order[takes_part], amounts[takes_part]
    after = loads.copy()
    after[workers] += amounts * row + copied
    return workers.tolist(), (amounts / rows).tolist(), after


def _rows_that_fit(loads: Floats, level: float, row: float, least: float) -> Floats:
    """Return how many whole rows of this much work fit on each worker; none if the room is less than `least`."""
    room = level - loads
    return np.where(room >= least * (1 - 1e-9), np.floor(room / row + 1e-9), 0.0)


def _level(loads: Floats, body: float) -> float:
    """Return the level to which workers fill up if this much is poured into the emptiest; `loads` are sorted."""
    many = np.arange(1, loads.size + 1)
    levels = (body + np.cumsum(loads)) / many  # if exactly the first of them take part
    above = np.append(loads[1:], np.inf)
    return float(levels[np.argmax(levels <= above)])


def _grids(loads: Floats, pieces: int, key: Rows, work: Work) -> Iterator[tuple[Cut, Floats]]:
    """Yield the grid of about this many pieces that copies the fewest rows, and two others, whose parts may fit better.

    100 × 100 rows in 14 × 14 pieces are up to 8 × 8 rows each, in 10 × 20 they are 10 × 5.
    """
    best = np.sqrt(pieces * key.left / key.right)
    for lefts in {int(np.clip(round(best * change), 1, min(pieces, key.left))) for change in _SHAPES}:
        yield _grid(loads, lefts, int(np.clip(-(-pieces // lefts), 1, key.right)), key, work)


def _grid(loads: Floats, lefts: int, rights: int, key: Rows, work: Work) -> tuple[Cut, Floats]:
    """Return a grid of nearly equal pieces, on the least loaded workers."""
    left_parts, right_parts = _parts(key.left, lefts), _parts(key.right, rights)
    works = work.of_key(*np.meshgrid(left_parts, right_parts, indexing="ij")).ravel()
    heap = [(load, worker) for worker, load in enumerate(loads.tolist())]
    heapq.heapify(heap)
    workers, after = np.zeros(works.size, np.int64), loads.copy()
    for piece in np.argsort(-works, kind="stable").tolist():
        load, worker = heap[0]
        heapq.heapreplace(heap, (load + works[piece], worker))
        workers[piece] = worker
        after[worker] += works[piece]
    shares = [tuple((parts / parts.sum()).tolist()) for parts in (left_parts, right_parts)]
    return Cut(shares[0], shares[1], tuple(workers.tolist())), after


def _parts(rows: int, parts: int) -> Floats:
    """Return the rows of nearly equal parts.

    >>> _parts(10, 4).tolist()
    [2.0, 3.0, 2.0, 3.0]
    """
    ends = np.floor(np.arange(parts + 1) * rows / parts)
    return np.diff(ends)


def ends_of(shares: Sequence[float], cells: Sequence[int] = ()) -> list[int]:
    """Return the slots at which parts with these shares end; the last part ends with all slots.

    `cells` are the rows in equal cells of slots, as far as they are known. Without them, rows are even over the slots.

    >>> [end / SLOTS for end in ends_of([0.25, 0.5, 0.25])]
    [0.25, 0.75, 1.0]
    >>> [end / SLOTS for end in ends_of([0.5, 0.5], cells=[30, 10])]
    [0.3333333330228925, 1.0]
    """
    done = np.minimum([*accumulate(shares)][:-1], 1.0)
    if sum(cells):
        rows = np.concatenate([[0], np.cumsum(cells)]) / sum(cells)
        done = np.interp(done, rows, np.linspace(0, 1, rows.size))
    return [*(np.maximum.accumulate(done) * SLOTS).astype(np.int64).tolist(), SLOTS]
