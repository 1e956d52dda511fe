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


def test_of_two_schemas_it_names_the_columns_that_differ():
    def schema(**types):
        return {"type": "struct", "fields": [{"name": name, "type": type_} for name, type_ in types.items()]}

    before = {"rows": schema(k="string", v="long")}
    added = difference(before, {"rows": schema(k="string", v="long", w="date")})
    assert added.startswith("this belongs to another query (rows was [] and is now ['w: date']): ")
    changed = difference(before, {"rows": schema(k="string", v="integer")})
    assert "(rows was ['v: long'] and is now ['v: integer'])" in changed
    swapped = difference(before, {"rows": schema(v="long", k="string")})
    assert "'fields'" in swapped
    assert difference(before, {"rows": schema(k="string", v="long")}) is None
