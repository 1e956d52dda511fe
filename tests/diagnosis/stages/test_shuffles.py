"""Which exchange a stage reads: reused ones, caches, and the start of Python workers beside them."""

import pytest

from keyspread.diagnosis import diagnose_log
from made_logs import HOT, SQL, MadeLog, exchange, node

SECONDS = [1 + rows / 1000 for rows in HOT]


def diagnosed(log, folder):
    (diagnosis,) = diagnose_log(log.end().write(folder))
    return diagnosis


def reused_plan():
    """Return a join of a window and an applyInPandas that read the same exchange."""
    shared = exchange("customer#1L", node("Scan"))
    window = node("Window", "Window [rank(a#1)], [customer#1L]", shared, spill_size=70)
    again = node("ReusedExchange", "ReusedExchange [customer#1L], " + shared["simpleString"])
    python = node("FlatMapGroupsInPandas", None, node("Sort", None, again, sort_time=81), data_sent=80)
    sides = (exchange("customer#1L", window, number=2), exchange("customer#1L", python, number=3))
    return node("SortMergeJoin", "SortMergeJoin [customer#1L], [customer#1L], Inner", *sides)


@pytest.mark.parametrize(("ran", "operator"), [(70, "window"), (80, "applyInPandas")])
def test_of_a_reused_exchange_the_operator_that_ran_is_named(ran, operator, tmp_path):
    log = MadeLog()
    log.query(reused_plan())
    log.stage(HOT)
    log.events[-1]["Stage Info"]["Accumulables"] = [{"ID": ran, "Value": 1}, {"ID": 10, "Value": 1}]
    (finding,) = diagnosed(log, tmp_path).skew
    assert (finding.operator, finding.keys) == (operator, ("customer",))


def cache_plan(*above):
    """Return a plan that reads a cache of a repartition by customer."""
    filled = node("Project", None, exchange("customer#1L", node("Scan")))
    scan = node("InMemoryTableScan", "InMemoryTableScan [customer#1L]", filled, number_of_output_rows=60)
    plan = scan
    for name in above:
        plan = node(name, None, plan)
    return plan


def test_a_cache_is_as_uneven_as_when_it_was_filled(tmp_path):
    log = MadeLog()
    log.query(cache_plan("Project"))
    # A task reads one block of the cache; its rows are those of the scan.
    log.stage([0] * 16, input_rows=[1] * 16, seconds=SECONDS, more={60: HOT})
    for event in log.events:
        if event["Event"] == "SparkListenerTaskEnd":
            del event["Task Info"]["Accumulables"][:2]  # the exchange itself was read by another job
    diagnosis = diagnosed(log, tmp_path)
    (finding,) = diagnosis.skew
    assert (finding.operator, finding.keys) == ("cached repartition", ("customer",))
    assert finding.adaptive == "on; the plan of this query is not adaptive"
    assert finding.remedies[0].code == 'keyspread.spark.spread(df, "customer", workers=16).cache()'
    assert not diagnosis.others


def test_a_cache_that_is_filled_names_its_exchange_afterwards(tmp_path):
    """Adaptive execution runs the plan of a cache with exchanges of its own, which the log shows when it is filled."""
    log = MadeLog()
    log.query(node("InMemoryTableScan", None, exchange("customer#1L", number=7), number_of_output_rows=60))
    log.stage(HOT)
    for event in log.events:
        for one in event.get("Task Info", {}).get("Accumulables", ()):
            one["Name"] = {10: "records read", 11: "local bytes read"}[one["ID"]]
    filled = node("InMemoryTableScan", None, exchange("customer#1L"), number_of_output_rows=60)
    log.add(f"{SQL}SparkListenerSQLAdaptiveExecutionUpdate", executionId=0, sparkPlanInfo=filled)
    (finding,) = diagnosed(log, tmp_path).skew
    assert (finding.operator, finding.keys) == ("repartition", ("customer",))


PYTHON = node(
    "FlatMapGroupsInPandas",
    None,
    exchange("customer#1L"),
    time_to_start_Python_workers=91,
    time_to_initialize_Python_workers=92,
)


def test_python_workers_that_start_at_different_speeds_do_not_hide_skew(tmp_path):
    # Some workers need 12 s or more to start, in both waves; the hot task, number 11, needs 20 s for its rows.
    boot = [1000, 1000, 12_000, 14_000, 14_000, 12_000, 500, 1000, 1000, 12_000, 1000, 0, 500, 1000, 500, 1000]
    idle = [0 if start else 20_000 for start in boot]  # a worker that is used again: the time since its last task
    log = MadeLog()
    log.query(PYTHON)
    seconds = [1 + rows / 200 + start / 1000 for rows, start in zip(HOT, boot, strict=True)]
    log.stage(HOT, seconds=seconds, more={91: boot, 92: idle})
    (finding,) = diagnosed(log, tmp_path).skew
    assert (finding.operator, finding.keys) == ("applyInPandas", ("customer",))


def test_beside_a_long_start_of_python_workers_skew_is_still_seen(tmp_path):
    # 8 workers start for 30 s; then the hot task takes 5 s, in a stage of 36 s.
    boot = [30_000] * 8 + [0] * 8
    log = MadeLog()
    log.query(PYTHON)
    log.stage(
        HOT, seconds=[seconds + start / 1000 for seconds, start in zip(SECONDS, boot, strict=True)], more={91: boot}
    )
    (finding,) = diagnosed(log, tmp_path).skew
    assert finding.lost == pytest.approx(5 - 1.25, abs=0.6)
    assert finding.wall == pytest.approx(36.25)
