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
