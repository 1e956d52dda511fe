"""Which column of the data a key is: the name alone does not say it."""

import pytest

from keyspread.diagnosis import diagnose_log
from made_logs import HOT, SQL, MadeLog, adaptive, exchange, node

SCAN = "FileScan parquet [customer#1L,name#2,v#9] Batched: true"


def groups(keys, *projects, scan=SCAN):
    """Return a plan of applyInPandas by these keys, with projections between the exchange and the scan."""
    below = node("Scan parquet ", scan)
    for project in reversed(projects):
        below = node("Project", f"Project [v#9, {project}]", below)
    return adaptive(node("FlatMapGroupsInPandas", f"FlatMapGroupsInPandas [{keys}], f(v#9)", exchange(keys, below)))


def diagnose(folder, *plans):
    log = MadeLog()
    for execution, plan in enumerate(plans):
        log.query(plan, execution=execution)
        log.stage(HOT, execution=execution, name=f"noop at job.py:{execution}")
        log.add(f"{SQL}SparkListenerSQLExecutionEnd", executionId=execution, time=log.clock)
    (diagnosis,) = diagnose_log(log.end().write(folder))
    return diagnosis


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (groups("customer#1L"), "customer"),
        (groups("client#7L", "customer#1L AS client#7L"), "customer"),  # renamed
        (groups("bucket#7L", "(customer#1L % 50) AS bucket#7L"), "customer % 50"),
        (groups("customer#7", "substring(name#2, 2, 5) AS customer#7"), "substring(name, 2, 5)"),
        (groups("customer#7L", "concat(name#2, -) AS customer#7L"), ""),  # made of a text
        (groups("a#8L", "(b#7L % 5) AS a#8L", "(customer#1L % 50) AS b#7L"), ""),  # in two steps
        (groups("customer#5L"), ""),  # another column of this name: not the one that was read
        (groups("customer#1L", scan="FileScan parquet [v#9,... 30 more fields]"), "customer"),
        (groups("customer#5L", "x#3, ... 30 more fields", scan="FileScan parquet [v#9,... 30 more fields]"), ""),
        (groups("customer#1L", scan="FileScan parquet [paid_customer#1L]"), ""),
    ],
)
def test_what_a_key_column_is_in_the_data(plan, expected, tmp_path):
    (finding,) = diagnose(tmp_path, plan).skew
    assert finding.definitions == (expected,)


class Rows:
    """A DataFrame as far as the names of its columns."""

    columns = ("customer", "bucket", "name", "v")

    def select(self, column):
        return self


@pytest.fixture
def with_values(monkeypatch):
    """Return `with_values` with a count that returns what it was asked to count."""
    pytest.importorskip("pyspark")
    from keyspread.diagnosis.diagnosis import Diagnosis
    from keyspread.diagnosis.stages.finding import Finding
    from keyspread.spark import log_keys

    def count(rows, keys, workers, sample=None):
        found = [Finding("key-skew", "", keys=tuple(key), values=({"key": f"of {key[0]}"},)) for key in keys]
        return Diagnosis("rows", {}, tuple(found))

    monkeypatch.setattr(log_keys, "F", type("F", (), {"expr": staticmethod(str)}))
    monkeypatch.setattr(log_keys, "key_columns", lambda rows, key: key)
    monkeypatch.setattr(log_keys, "key_texts", list)
    monkeypatch.setattr(log_keys, "candidate_keys", count)
    return log_keys.with_values


def test_one_name_for_two_keys_is_counted_as_two(tmp_path, with_values):
    plans = [groups(f"bucket#{id}L", f"(customer#1L % {by}) AS bucket#{id}L") for id, by in ((7, 50), (17, 7))]
    (diagnosis,) = with_values([diagnose(tmp_path, *plans)], Rows())
    counted = {finding.definitions[0]: finding.values[0]["key"] for finding in diagnosis.skew}
    assert counted == {"customer % 50": "of customer % 50", "customer % 7": "of customer % 7"}


def test_a_column_that_may_be_another_is_not_counted(tmp_path, with_values):
    plan = groups("customer#7", "concat(customer#1L, -) AS customer#7")
    (diagnosis,) = with_values([diagnose(tmp_path, plan)], Rows())
    assert diagnosis.skew[0].values == ()
    assert "'customer' is not counted: the log does not show that it is a column as it was read" in diagnosis.notes[-1]
