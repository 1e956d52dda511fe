"""Routing of messages with weights: equal to the plain loop, for every rule."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from kernel_streams import keys_of, marks_of, senders, small_candidates, streams
from keyspread.kernels import weighted as weighted_routing
from keyspread.kernels.candidate_lists import write_lists
from keyspread.kernels.routing import new_candidates
from keyspread.kernels.weighted import Rules, new_weighted_balance, route_weighted, route_weighted_by_levels, show_loads

# What a scheme does with a cold key follows from what it does with a hot one.
NAMES = {
    weighted_routing.CHOICES: ("less of two", "choices"),
    weighted_routing.ANYONE: ("less of two", "all"),
    weighted_routing.OWN_LIST: ("first or second", "list"),
    weighted_routing.IN_TURN: ("less of two", "turn"),
}
HEAVIEST = st.sampled_from([1, 3, 50, 2**32])


def weights_of(messages):
    return np.array([weight for _, weight, _ in messages], np.int64)


def shown(loads, unit):
    balance = new_weighted_balance(np.array(loads, np.int64))
    show_loads(balance, unit)
    return balance


def expected(messages, sender, rules, lists=None):
    """Return workers, loads and the next turn by the plain loop."""
    identity, sent, loads = sender
    loads = list(loads)
    cold, hot = NAMES[rules.hot]
    routed, turn = naive.route_loop(
        messages,
        naive.Rules(cold, hot, rules.choices, 2 * rules.unit, lists or {}),
        salt=int(identity.salt),
        start=identity.start + sent,
        turn=rules.turn,
        loads=loads,
    )
    return routed, loads, turn


@settings(max_examples=200, deadline=None)
@given(st.data(), HEAVIEST, senders(), st.sampled_from(["choices", "turn"]), st.integers(1, 8))
def test_a_look_at_each_candidate_equals_the_plain_loop(data, heaviest, sender, hot, choices):
    messages, (identity, sent, loads) = data.draw(streams(most_weight=heaviest)), sender
    rule = weighted_routing.CHOICES if hot == "choices" else weighted_routing.IN_TURN
    rules = Rules(rule, choices, 1.0, data.draw(st.integers(0, len(loads) - 1)))
    out, after = marks_of(messages), np.array(loads, np.int64)
    turn = route_weighted(keys_of(messages), weights_of(messages), out, sent, identity, after, rules)
    assert (out.tolist(), after.tolist(), turn) == expected(messages, sender, rules)


@settings(max_examples=300, deadline=None)
@given(st.data(), HEAVIEST, senders(), st.integers(1, 40), st.integers(2, 12), st.floats(0.001, 2000))
def test_levels_equal_the_plain_loop(data, heaviest, sender, choices, rows, unit):
    """Hot keys may use all workers, or some; levels are of any width at first; there is room for few rows or many."""
    messages, (identity, sent, loads) = data.draw(streams(most_weight=heaviest)), sender
    rules = Rules(data.draw(st.sampled_from([weighted_routing.CHOICES, weighted_routing.ANYONE])), choices, 1.0, 0)
    out, keys, weights = marks_of(messages), keys_of(messages), weights_of(messages)
    candidates, balance = small_candidates(len(loads), rows), shown(loads, unit)
    half = len(messages) // 2  # the second call continues where the first ended
    for part in (slice(0, half), slice(half, None)):
        route_weighted_by_levels(keys[part], weights[part], out[part], sent, identity, balance, candidates, rules)
        sent += half
    assert (out.tolist(), balance.loads.tolist()) == expected(messages, sender, rules)[:2]


@settings(max_examples=200, deadline=None)
@given(streams(most_weight=50), senders(), st.sampled_from([1.0, 2.5, 20.0]))
def test_lists_of_their_own_equal_the_plain_loop(messages, sender, unit):
    identity, sent, loads = sender
    candidates, rules = new_candidates(len(loads), 20, 20), Rules(weighted_routing.OWN_LIST, 2, unit, 0)

    # The lists of some hot keys, with the counters that the marks name.
    marks, balance = marks_of(messages), shown(loads, unit)
    counter_of = {key: int(mark) for (key, _, _), mark in zip(messages, marks, strict=True) if mark >= 0}
    listed = [key for number, key in enumerate(counter_of) if number % 3]
    sizes = np.arange(3, 3 + len(listed))
    lists = naive.lists_for(dict(zip(listed, sizes.tolist(), strict=True)), 0, int(identity.salt), len(loads))
    counters = np.array([counter_of[key] for key in listed], np.int64)
    write_lists(candidates, counters, np.array(listed, np.uint64), sizes, 0, identity, balance.loads)
    keys, weights = keys_of(messages), weights_of(messages)
    route_weighted_by_levels(keys, weights, marks, sent, identity, balance, candidates, rules)
    assert (marks.tolist(), balance.loads.tolist()) == expected(messages, sender, rules, lists)[:2]


def test_a_list_whose_key_lost_its_counter_is_not_used():
    """Counter 0 has a list of another key: the message is routed as if it were cold."""
    candidates, identity = new_candidates(100, 5, 5), weighted_routing.Identity(np.uint64(5), 0)
    owner, size = np.array([1], np.uint64), np.array([50])
    write_lists(candidates, np.array([0]), owner, size, 0, identity, np.zeros(100, np.int64))
    rules = Rules(weighted_routing.OWN_LIST, 2, 1.0, 0)
    for key, most in ((1, 50), (2, 2)):
        out, keys, weights = np.zeros(200, np.int32), np.full(200, key, np.uint64), np.ones(200, np.int64)
        candidates.least[:] = 0
        route_weighted_by_levels(keys, weights, out, 0, identity, shown([0] * 100, 1.0), candidates, rules)
        assert np.unique(out).size == most
