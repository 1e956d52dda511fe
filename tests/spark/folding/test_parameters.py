"""The parameters of an operator as text: equal for equal parameters in every run, different otherwise. No Spark."""

import datetime
import enum
import re
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyspark")

from keyspread import Operator
from keyspread.spark._folding.operator_parts import parameters_of


@dataclass
class Extremes:
    least: int
    most: int


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Count(Operator):
    """A count of rows: the smallest operator."""

    schema = "n bigint"
    zero = update = merge = finish = None


class Quantile(Count):
    """An operator with parameters."""

    digits = 2

    def __init__(self, share, more=None):
        self.share, self.more = share, more


def test_parameters_belong_to_the_identity_of_a_state():
    def of(*arguments):
        return parameters_of(Quantile(*arguments))

    assert of(0.5) == {"digits": "2", "more": "None", "share": "0.5"}
    assert of(0.5) != of(0.9)
    assert of(1) != of("1") != of(1.0)
    for one, other in (
        ({"a", "b"}, {"b", "a"}),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (np.float64(0.5), 0.5),
        (np.longdouble(0.5), np.longdouble("0.5")),
        (np.arange(3), np.arange(3)),
        (re.compile("a"), re.compile("a")),
        (Extremes(1, 2), Extremes(1, 2)),
        (len, len),
    ):
        assert of(0.5, one) == of(0.5, other)
    for one, other in (
        (np.arange(3), np.arange(4)),
        (np.array(["a", None]), np.array(["b", None])),
        (re.compile("a"), re.compile("a", re.IGNORECASE)),
        (Extremes(1, 2), Extremes(1, 3)),
        (len, max),
        ([1, 2], [2, 1]),
        (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)),
        (pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-02")),
        (pd.Timedelta("1h"), pd.Timedelta("2h")),
    ):
        assert of(0.5, one) != of(0.5, other)
    assert of(0.5, object())["more"] == "object(…)"  # its address would be another one in the next run


def test_parameters_in_slots_are_compared_by_value():
    class Slotted(Count):
        __slots__ = ("share",)

        def __init__(self, share):
            self.share = share

    assert parameters_of(Slotted(0.5)) == {"share": "0.5"}
    assert parameters_of(Slotted(0.5)) != parameters_of(Slotted(0.9))


def test_what_has_no_effect_on_a_state_or_is_compared_on_its_own_is_left_out():
    class Rich(Quantile):
        state = "n bigint"
        batches = "arrow"

        @property
        def doubled(self):
            return 2 * self.share

        def helper(self):
            return 1

    assert parameters_of(Rich(0.5)) == parameters_of(Quantile(0.5))


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({0, 8}, {8, 0}, True),  # both hash to the same place: the set keeps the order in which they came
        (frozenset([8, 0, 16]), frozenset([16, 0, 8]), True),
        ({"a": {1: 2}, "b": 3}, {"b": 3, "a": {1: 2}}, True),
        (Color.RED, Color.RED, True),
        (Color.RED, Color.BLUE, False),
        (np.zeros((2, 3)), np.zeros((3, 2)), False),
        (np.zeros(2, np.int64), np.zeros(2, np.float64), False),
        (np.arange(6).reshape(2, 3).T, np.arange(6).reshape(2, 3).T.copy(), True),
        ({"a": 1}, {"a": 2}, False),
        ((1, 2), (1, 2, 3), False),
        ([partial(len)], [partial(max)], True),  # of a class that is not known here: only its name counts
    ],
)
def test_values_of_many_kinds(one, other, equal):
    assert (parameters_of(Quantile(0, one)) == parameters_of(Quantile(0, other))) is equal
