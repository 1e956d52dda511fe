"""What counted keys mean, without Spark."""

import numpy as np

from keyspread.diagnosis.data_findings import KeyLoad, data_diagnosis


def test_an_even_key_needs_nothing():
    load = KeyLoad(("unique",), 80, np.full(8, 10), (), planned=10, pieces=0)
    diagnosis = data_diagnosis("rows", [load], 8, None)
    assert not diagnosis.skew
    assert diagnosis.verdict.startswith("No key skew: the busiest of 8 partitions has 1.00")
    assert "You need nothing" in str(diagnosis)
