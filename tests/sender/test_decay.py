"""How much of the past a sender forgets when the hot keys change."""

import numpy as np

import naive
from keyspread import SpaceSaving
from keyspread.sender import decay


def test_a_flood_of_new_keys_is_not_taken_for_hot_ones():
    """Every counter but one changes hands: what it inherits as error did not come after the mark."""
    hitters = SpaceSaving(10)
    hitters.offer(0, 910)
    hitters.offer_many(np.tile(np.arange(1, 10), 10))
    mark = hitters.mark()
    hitters.offer_many(np.arange(1000, 1400))
    assert decay.halvings(hitters, mark) == naive.halvings_for(hitters, mark) == 0
