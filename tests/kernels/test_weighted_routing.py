"""Routing of weights to workers of different capacity: equal to the plain loop, for every rule."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from kernel_streams import keys_of, marks_of, senders, streams
from keyspread.kernels import weighted_routing
from keyspread.kernels.candidate_lists import write_lists
from keyspread.kernels.capacities import new_capacities
from keyspread.kernels.routing import new_candidates
from keyspread.kernels.weighted_routing import Rules, route_weighted

COLD = {
    "first": weighted_routing.FIRST,
    "less of two": weighted_routing.LESS_OF_TWO,
    "first or second": weighted_routing.FIRST_OR_SECOND,
}
HOT = {
    "choices": weighted_routing.CHOICES,
    "all": weighted_routing.ANYONE,
    "list": weighted_routing.OWN_LIST,
    "turn": weighted_routing.IN_TURN,
}


def relative_capacities(workers, seed):
    """Multiples of the mean, with ties; None for equal workers."""
    if seed is None:
        return None
    given = np.random.default_rng(seed).integers(1, 5, workers)
    return None if len(set(given.tolist())) == 1 else (given / given.mean()).tolist()


@settings(max_examples=200, deadline=None)
@given(
    streams(most_weight=50),
    senders(),
    st.sampled_from(list(COLD)),
    st.sampled_from(list(HOT)),
    st.integers(1, 8),
    st.sampled_from([1.0, 2.5, 20.0]),
    st.one_of(st.none(), st.integers(0, 2**32)),
    st.data(),
)
def test_every_rule_equals_the_plain_loop(messages, sender, cold, hot, choices, unit, seed, data):
    identity, sent, loads = sender
    workers = len(loads)
    relative = relative_capacities(workers, seed)
    capacities, candidates = new_capacities(workers, relative), new_candidates(workers, 20, 20)
    turn = data.draw(st.integers(0, workers - 1))

    # The lists of some hot keys, with the counters that the marks name.
    marks, after = marks_of(messages), np.array(loads, np.int64)
    counter_of = {key: int(mark) for (key, _, _), mark in zip(messages, marks, strict=True) if mark >= 0}
    listed = [key for number, key in enumerate(counter_of) if number % 3]
    sizes = np.arange(3.0, 3.0 + len(listed))
    lists = naive.lists_for(
        dict(zip(listed, sizes.tolist(), strict=True)),
        0.0,
        int(identity.salt),
        relative or [1.0] * workers,
        naive.slots_for(relative or [1.0] * workers),
    )
    counters = np.array([counter_of[key] for key in listed], np.int64)
    write_lists(candidates, counters, np.array(listed, np.uint64), sizes, 0.0, identity, after, capacities)

    following = route_weighted(
        keys_of(messages),
        np.array([weight for _, weight, _ in messages], np.int64),
        marks,
        sent,
        identity,
        after,
        capacities,
        candidates,
        Rules(COLD[cold], HOT[hot], choices, unit, turn),
    )
    routed, turn = naive.route_loop(
        messages,
        naive.Rules(cold, hot, choices, 2 * unit, lists),
        salt=int(identity.salt),
        start=identity.start + sent,
        turn=turn,
        loads=loads,
        capacities=relative,
    )
    assert (marks.tolist(), after.tolist(), following) == (routed, loads, turn)


def test_a_list_whose_key_lost_its_counter_is_not_used():
    """Counter 0 has a list of another key: the message is routed as if it were cold."""
    candidates, capacities = new_candidates(100, 5, 5), new_capacities(100, None)
    identity = weighted_routing.Identity(np.uint64(5), 0)
    loads, sizes = np.zeros(100, np.int64), np.array([50.0])
    write_lists(candidates, np.array([0]), np.array([1], np.uint64), sizes, 0.0, identity, loads, capacities)
    for key, most in ((1, 50), (2, 2)):
        out = np.zeros(200, np.int32)
        rules = Rules(weighted_routing.FIRST_OR_SECOND, weighted_routing.OWN_LIST, 2, 1.0, 0)
        keys, weights = np.full(200, key, np.uint64), np.ones(200, np.int64)
        route_weighted(keys, weights, out, 0, identity, np.zeros(100, np.int64), capacities, candidates, rules)
        assert np.unique(out).size == most
