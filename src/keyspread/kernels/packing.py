"""A tournament: the player with the least score at any moment, where one score changes at a time.

Players are the leaves of a binary tree, and every node holds the winner of the two below it. If a score changes, only
the nodes above that player are played again: 14 for 10,000 players.

    scores 4 1 3 2: the first round is won by players 1 and 3, the final by player 1 (1 < 2)
"""

from typing import NamedTuple

import numpy as np

from keyspread.kernels.compilation import Counts, Floats, Indices, Int, entry, part

OUT = np.inf  # the score of a player that takes no part


class Tournament(NamedTuple):
    """The scores, as many as the next power of two, and the winners: node i is above the nodes 2i and 2i + 1."""

    scores: Floats
    winners: Indices


def new_tournament(players: int) -> Tournament:
    """Make room for a tournament; `play` fills it."""
    leaves = 1 << max(0, players - 1).bit_length()
    return Tournament(np.full(leaves, OUT), np.zeros(2 * leaves, np.int32))


@part
def play(tournament: Tournament) -> None:
    """Play all rounds."""
    scores, winners = tournament
    leaves = scores.size
    for player in range(leaves):
        winners[leaves + player] = player
    for node in range(leaves - 1, 0, -1):
        left, right = winners[2 * node], winners[2 * node + 1]
        winners[node] = left if scores[left] <= scores[right] else right


@part
def winner(tournament: Tournament) -> np.int64:
    """Return the player with the least score; among equals, the first."""
    return np.int64(tournament.winners[1])


@part
def set_score(tournament: Tournament, player: Int, score: float) -> None:
    """Change the score of one player, and play the rounds above it again."""
    scores, winners = tournament
    scores[player] = score
    best, least = np.int64(player), score
    node = scores.size + player
    while node > 1:
        other = np.int64(winners[node ^ 1])
        if scores[other] < least or (scores[other] == least and other < best):
            best, least = other, scores[other]
        node >>= 1
        winners[node] = best


# Packing: assign counted buckets and hot keys to workers, as close to the previous plan as balance allows.
#
# Each step first fills the workers that had a bucket or key before, then the least loaded ones; among equals, the first
# from `first_worker` on, going round.


_DIGIT_BITS = 11  # of a size while buckets are sorted: two or three digits are mostly enough
DIGITS = 1 << _DIGIT_BITS


class Room(NamedTuple):
    """The workers while they are filled."""

    loads: Counts
    even: int  # the share of a worker, rounded up
    at_most: int  # the same plus the tolerance
    first_worker: int
    order: Tournament  # player p is the worker first_worker + p, modulo the number of workers
    marks: Counts  # scratch, two per worker


class Pieces(NamedTuple):
    """Hot keys cut into pieces: those of key k are first[k] … first[k + 1] - 1."""

    first: Counts
    workers: Indices
    weights: Counts


def new_room(workers: int, even: int, at_most: int, first_worker: int) -> Room:
    """Make the room of workers that have nothing yet."""
    marks = np.full(2 * workers, -1, np.int64)
    return Room(np.zeros(workers, np.int64), even, at_most, first_worker, new_tournament(workers), marks)


@entry
def sort_largest_first(sizes: Counts, order: Counts, scratch: Counts, places: Counts) -> None:
    """Sort the buckets in `order` by size, largest first; equal ones keep their order.

    `scratch` is as long as `order`, and `places` has one entry per value of a digit. The sizes are sorted by one digit
    after the other, the lowest first.
    """
    if order.size == 0:
        return
    smallest, largest = sizes[order[0]], sizes[order[0]]
    for i in range(order.size):
        smallest, largest = min(smallest, sizes[order[i]]), max(largest, sizes[order[i]])
    shift = 0
    while (largest - smallest) >> shift > 0:
        for digit in range(places.size):
            places[digit] = 0
        for i in range(order.size):
            places[((largest - sizes[order[i]]) >> shift) & (places.size - 1)] += 1
        place = np.int64(0)
        for digit in range(places.size):
            place, places[digit] = place + places[digit], place
        for i in range(order.size):
            digit = ((largest - sizes[order[i]]) >> shift) & (places.size - 1)
            scratch[places[digit]] = order[i]
            places[digit] += 1
        for i in range(order.size):
            order[i] = scratch[i]
        shift += _DIGIT_BITS


@part
def _player(room: Room, worker: Int) -> np.int64:
    player = np.int64(worker - room.first_worker)
    return player if player >= 0 else player + room.loads.size


@part
def _worker(room: Room, player: Int) -> np.int64:
    worker = np.int64(player + room.first_worker)
    return worker if worker < room.loads.size else worker - room.loads.size


@part
def _rank_all(room: Room) -> None:
    """Put all workers in order."""
    for worker in range(room.loads.size):
        room.order.scores[_player(room, worker)] = room.loads[worker]
    play(room.order)


@part
def _rank(room: Room, worker: Int) -> None:
    """Put a worker that has got more in its new place."""
    set_score(room.order, _player(room, worker), float(room.loads[worker]))


@entry
def pack_buckets(sizes: Counts, largest_first: Counts, owners: Indices, room: Room) -> None:
    """Assign each bucket to a worker, largest first: its old one if it fits under the limit, else the least loaded.

    Before the call, `owners` holds the old workers, or -1. `largest_first` lists the buckets that are not empty, and
    on return it has been used up.
    """
    left = 0
    for i in range(largest_first.size):
        bucket = largest_first[i]
        owner = owners[bucket]
        if owner >= 0 and room.loads[owner] + sizes[bucket] <= room.at_most:
            room.loads[owner] += sizes[bucket]
        else:
            largest_first[left] = bucket
            left += 1
    _rank_all(room)
    for i in range(left):
        bucket = largest_first[i]
        worker = _worker(room, winner(room.order))
        owners[bucket] = worker
        room.loads[worker] += sizes[bucket]
        _rank(room, worker)
    # A bucket without messages and without an old worker gets any: one of its keys may still arrive.
    for bucket in range(owners.size):
        if owners[bucket] < 0:
            owners[bucket] = bucket % room.loads.size


@part
def _add_piece(pieces: Pieces, key: Int, end: Int, worker: Int, amount: Int, room: Room) -> Int:
    """Add messages to the key's piece on a worker, and to the worker. Return where the next piece begins."""
    room.loads[worker] += amount
    _rank(room, worker)
    piece = room.marks[worker]
    if piece >= pieces.first[key]:  # the key has a piece there: otherwise the mark is older
        pieces.weights[piece] += amount
        return end
    room.marks[worker] = end
    pieces.workers[end] = worker
    pieces.weights[end] = amount
    return end + 1


@entry
def split_hot_keys(messages: Counts, old_first: Counts, old_workers: Indices, room: Room, pieces: Pieces) -> int:
    """Split the hot keys, hottest first, over the room that is left: first their old workers, then the least loaded.

    The old workers of key k are old_workers[old_first[k] … old_first[k + 1] - 1]. It fills them in that order. A key
    that has grown then takes a little more of the last one, which it shares with other keys, and those shift a
    little; none moves away. Return how many messages go to a worker that did not have their key.
    """
    workers, moved = room.loads.size, 0
    end: Int = np.int64(0)
    for mark in range(2 * workers):
        room.marks[mark] = -1
    _rank_all(room)
    for key in range(messages.size):
        pieces.first[key] = end
        left = messages[key]
        for limit in (room.even, room.at_most):
            for old in range(old_first[key], old_first[key + 1]):
                worker = np.int64(old_workers[old])
                room.marks[workers + worker] = key
                amount = min(left, limit - room.loads[worker])
                if amount > 0:
                    end = _add_piece(pieces, key, end, worker, amount, room)
                    left -= amount
        while left > 0:
            player = winner(room.order)
            worker = _worker(room, player)
            amount = min(left, room.even - room.loads[worker])
            if amount <= 0:  # there is room elsewhere: together, the shares hold everything
                set_score(room.order, player, OUT)
                continue
            end = _add_piece(pieces, key, end, worker, amount, room)
            left -= amount
            if room.marks[workers + worker] != key:
                moved += amount
    pieces.first[messages.size] = end
    return moved
