"""A tournament: the player with the least score at any moment, where one score changes at a time.

Players are the leaves of a binary tree, and every node holds the winner of the two below it. If a score changes, only
the nodes above that player are played again: 14 for 10,000 players.

    scores 4 1 3 2: the first round is won by players 1 and 3, the final by player 1 (1 < 2)
"""

from typing import NamedTuple

import numpy as np

from keyspread.kernels.array_types import Floats, Indices, Int
from keyspread.kernels.compilation import part

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
