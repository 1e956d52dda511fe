"""The tournament: its winner is the least of all scores, the first among equals, whatever changes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keyspread.kernels.compilation import Counts, Floats, Indices, entry
from keyspread.kernels.packing import OUT, Tournament, new_tournament, play, set_score, winner

SCORES = st.sampled_from([0.0, 1.0, 1.5, 2.0, OUT])


@entry
def winners_of(tournament: Tournament, players: Counts, scores: Floats, out: Indices) -> None:
    """Change one score after the other, and write the winner after each."""
    play(tournament)
    for i in range(players.size):
        set_score(tournament, players[i], scores[i])
        out[i] = winner(tournament)


@given(st.lists(SCORES, min_size=1, max_size=20), st.data())
def test_the_winner_is_the_first_of_the_least(scores, data):
    changes = data.draw(st.lists(st.tuples(st.integers(0, len(scores) - 1), SCORES), max_size=40))
    tournament = new_tournament(len(scores))
    tournament.scores[: len(scores)] = scores
    out = np.zeros(len(changes), np.int32)
    players, given = np.array([one for one, _ in changes], np.int64), np.array([score for _, score in changes], float)
    winners_of(tournament, players, given, out)
    expected = []
    for player, score in changes:
        scores[player] = score
        expected.append(min(range(len(scores)), key=lambda one: (scores[one], one)))
    assert out.tolist() == expected
