"""JSON of any depth: the same values as the standard library, and plans of thousands of operators."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyspread.diagnosis import diagnose_log
from keyspread.diagnosis.log.deep_json import loads
from made_logs import skewed_log

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(values, st.sampled_from([None, 1]))
def test_the_values_come_back(value, indent):
    assert loads(json.dumps(value, indent=indent)) == value


@given(st.text(alphabet='{}[],:"1a \\', max_size=12))
def test_what_the_standard_library_refuses_is_refused(text):
    try:
        expected = json.loads(text, strict=False)
    except ValueError:
        with pytest.raises(ValueError, match=r"."):
            loads(text)
    else:
        assert loads(text) == expected


def test_a_deep_plan_is_read(tmp_path):
    log = skewed_log()
    depth = 5000
    project = '{"nodeName":"Project","simpleString":"Project","metrics":[],"metadata":{},"children":['
    lines = []
    for event in log.events:
        plan = event.pop("sparkPlanInfo", None)
        line = json.dumps(event, separators=(",", ":"))
        if plan is not None:
            line = line[:-1] + ',"sparkPlanInfo":' + project * depth + json.dumps(plan) + "]}" * depth + "}"
        lines.append(line)
    path = tmp_path / "log"
    path.write_text("\n".join(lines) + "\n")
    (diagnosis,) = diagnose_log(path)
    assert [finding.keys for finding in diagnosis.skew] == [("customer",)]
