"""Identity: what differs between two queries."""

import pytest

pytest.importorskip("pyspark")

from keyspread.spark._streaming.blobs import difference


def test_only_fields_of_the_new_query_are_compared():
    assert difference({"key": ["k"], "scheme": "key"}, {"key": ["k"]}) is None
    changed = difference({"key": ["k"], "workers": 3}, {"key": ["k"], "workers": 4, "window": "1 hour"})
    assert changed == (
        "this belongs to another query (workers was 3 and is now 4, window was None and is now '1 hour'): "
        "resume that query unchanged, or use a new folder"
    )
