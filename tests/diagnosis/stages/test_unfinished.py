"""Jobs that were killed while the hot task still ran: what is known of it, as a lower bound."""

import pytest

from keyspread.diagnosis import diagnose_log
from made_logs import EVEN, HOT, SQL, MadeLog, adaptive, exchange, join_plan, node

WINDOW = node("Window", None, exchange("customer#1L"))


def killed(rows=HOT, running=(11,), *, plan=WINDOW, minutes=10, ended="application", written=None, **stage):
    """Return a log in which some tasks do not end; the application ends after `minutes`, or the log just stops."""
    log = MadeLog()
    log.query(plan)
    total = sum(rows) if written is None else written
    log.written(total, 100 * total)
    log.stage(rows, running=running, **stage)
    if ended != "nothing":
        log.clock += 60_000 * minutes
    if ended == "query":
        log.add(f"{SQL}SparkListenerSQLExecutionEnd", executionId=0, time=log.clock)
    return log.end() if ended != "nothing" else log


@pytest.mark.parametrize("ended", ["application", "query"])
def test_a_hot_task_that_still_ran_when_the_job_was_killed(ended, tmp_path):
    (diagnosis,) = diagnose_log(killed(ended=ended).write(tmp_path))
    (finding,) = diagnosis.skew
    assert (finding.operator, finding.keys, finding.unfinished) == ("window", ("customer",), 1)
    # What nobody else read: 7,750 rows were written, 15 tasks read 250 each.
    assert (finding.busiest, finding.mean) == (4000, pytest.approx(7750 / 16))
    # It ran for 601 s; at its own pace, an even task would have taken 601 x 484 / 4000 s.
    assert finding.lost == pytest.approx(601.25 * (1 - 484.4 / 4000), abs=0.1)
    assert finding.wall == pytest.approx(602.5, abs=0.1)
    assert "still running after 60" in finding.text
    assert diagnosis.verdict.startswith("Key skew by customer: at least 5")
    assert "at least" in str(diagnosis)
    assert "at least" in diagnosis.to_html()
    assert finding.remedies


def test_a_log_that_just_stops_shows_the_rows(tmp_path):
    """The last event is the end of another task: the hot one has hardly run, but its rows are known."""
    (diagnosis,) = diagnose_log(killed(ended="nothing").write(tmp_path))
    (finding,) = diagnosis.skew
    assert (finding.keys, finding.ratio) == (("customer",), pytest.approx(8.26, abs=0.01))
    assert finding.expected == pytest.approx(4000 * 1.25 / 250)
    assert "needs up to 20 s" in finding.text
    assert "the application still runs, or was killed" in diagnosis.notes[-1]


def test_behind_a_partial_aggregation_the_bytes_show_it(tmp_path):
    """collect_list: every task reads one row per key and map task, but the lists of a hot key are long."""
    log = MadeLog()
    log.query(WINDOW)
    log.written(sum(EVEN), 100 * sum(HOT))
    log.stage(EVEN, running=(11,), seconds=[1.25] * 16)
    for event in log.events:
        for one in event.get("Task Info", {}).get("Accumulables", ()):
            if one["ID"] == 11:
                one["Update"] = str(100 * 250)
    log.clock += 60_000
    (diagnosis,) = diagnose_log(log.end().write(tmp_path))
    (finding,) = diagnosis.skew
    assert (finding.load, finding.busiest) == ("bytes that no other task read", 400_000)


def test_tasks_that_hang_without_more_rows_are_not_called_skew(tmp_path):
    (diagnosis,) = diagnose_log(killed(EVEN).write(tmp_path))
    assert not diagnosis.skew
    (finding,) = [one for one in diagnosis.others if one.kind == "unfinished"]
    assert "one task did not finish (still running after 60" in finding.text
    assert "window by customer" in finding.text
    assert finding.remedies[0].text.endswith("keyspread diagnose DATA --key customer")
    assert diagnosis.verdict.startswith("Unknown: tasks did not finish")


def test_a_job_that_was_cancelled_or_failed_four_times(tmp_path):
    for reason, word in (("TaskKilled", "killed"), ("ExceptionFailure", "failed")):
        log = MadeLog()
        log.query(adaptive(join_plan()))
        log.written(sum(HOT), 100 * sum(HOT))
        stage = log.stage(HOT, other_rows=[10] * 16, running=(11,))
        for attempt in range(1 if word == "killed" else 4):
            begin = log.clock + 20_000 * attempt
            log.events.append(log.task(stage, 0, 11, begin, begin + 20_000, {}, {}, reason=reason))
        log.clock += 80_000
        failed = {"Stage ID": stage, "Failure Reason": "Job aborted", "Completion Time": log.clock}
        log.add("SparkListenerStageCompleted", **{"Stage Info": failed})
        (diagnosis,) = diagnose_log(log.end().write(tmp_path, word))
        (finding,) = diagnosis.skew
        assert (finding.operator, finding.keys) == ("sort-merge join", ("customer",))
        assert f"({word} after 20.0 s" in finding.text


def test_a_stage_that_ended_well_has_no_open_tasks(tmp_path):
    """A busy driver may lose the end of a task: the stage is known to have finished."""
    log = MadeLog()
    log.query(WINDOW)
    log.written(sum(HOT), 100 * sum(HOT))
    log.stage(HOT, running=(11,))
    log.add("SparkListenerStageCompleted", **{"Stage Info": {"Stage ID": 0, "Completion Time": log.clock}})
    log.clock += 600_000
    (diagnosis,) = diagnose_log(log.end().write(tmp_path))
    assert not diagnosis.findings


def test_an_attempt_that_was_repeated_is_not_unfinished(tmp_path):
    log = MadeLog()
    log.query(WINDOW)
    log.written(sum(EVEN), 100 * sum(EVEN))
    log.stage(EVEN, running=(11,))
    log.clock += 600_000
    log.stage(EVEN, attempt=1)
    (diagnosis,) = diagnose_log(log.end().write(tmp_path))
    assert not [one for one in diagnosis.findings if one.unfinished]
