"""Groups of equal rows, compared with plain Python that works value by value."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from keyspread.folding.states import Groups, groups_of

KEYS = st.sampled_from(["a", "b", None, "c"])
FLOATS = st.none() | st.floats(width=32)


@given(st.lists(st.tuples(KEYS, st.integers(0, 2), FLOATS), min_size=1, max_size=30))
def test_groups_are_equal_rows_in_order_of_appearance(pairs):
    columns = [
        pa.array([one[0] for one in pairs], pa.string()),
        pa.array([one[1] for one in pairs]),
        pa.array([one[2] for one in pairs], pa.float64()),
    ]
    # -0.0 and 0.0 differ here: key columns are normalised before they are grouped.
    values = [tuple("nan" if isinstance(v, float) and v != v else str(v) for v in one) for one in pairs]
    seen = {}
    expected = [seen.setdefault(value, len(seen)) for value in values]
    groups = groups_of(columns)
    assert groups.of_row.tolist() == expected
    assert [values[row] for row in groups.first] == list(seen)


def test_no_rows_and_the_number_of_groups():
    assert groups_of([pa.array([], pa.string())]).count == 0
    assert Groups(np.array([0, 0]), np.array([0])).count == 1
