"""What a log means: hot keys, what is no skew, and what is said of logs that are not whole."""

import pytest

from keyspread.diagnosis import diagnose_log
from keyspread.diagnosis.log.application import Application
from keyspread.diagnosis.log.events import EventReader
from keyspread.diagnosis.stages.analysis import Analysis
from made_logs import (
    BEGIN,
    EVEN,
    HOT,
    SQL,
    MadeLog,
    adaptive,
    diagnose,
    exchange,
    join_by,
    join_plan,
    node,
    over,
    skew_of,
    skewed_log,
)


def test_a_skewed_join(tmp_path):
    (diagnosis,) = diagnose_log(skewed_log().write(tmp_path))
    (finding,) = diagnosis.skew
    assert (finding.operator, finding.keys, finding.stage) == ("sort-merge join", ("customer",), 0)
    assert finding.wall == pytest.approx(6.25, abs=0.02)
    assert finding.lost == pytest.approx(3.28, abs=0.05)
    assert finding.rows == (4010, pytest.approx(494.4, abs=0.1))
    assert finding.ratio == pytest.approx(8.1, abs=0.1)
    assert finding.call_site == "collect at job.py:7"
    assert [remedy.code for remedy in finding.remedies] == [
        'left.join(F.broadcast(right), left["customer"] == right["id"], "inner")',
        'keyspread.spark.join(left, right, on=[("customer", "id")])',
    ]
    assert diagnosis.verdict == "Key skew by customer: at most 3.3 of 6.2 s lost."
    assert sum(diagnosis.findings[0].time[part] for part in ("even", "skew", "stragglers", "waiting")) == pytest.approx(
        finding.wall
    )


def test_output_skew_that_the_input_hides(tmp_path):
    output = [50_000 if task == 3 else 500 for task in range(16)]
    seconds = [1 + rows / 5000 for rows in output]
    (finding,) = skew_of(join_plan(), tmp_path, EVEN, output_rows=output, seconds=seconds)
    assert (finding.keys, finding.load) == (("customer",), "output rows of the SortMergeJoin")


def test_an_even_stage_is_no_skew(tmp_path):
    log = MadeLog()
    log.query(join_plan())
    log.stage([480 + task for task in range(16)])
    diagnosis = diagnose(log, tmp_path)
    assert not diagnosis.findings
    assert diagnosis.verdict == "No key skew: no stage lost time to a hot key. There is nothing to spread."
    assert [stage.stage for stage in diagnosis.longest] == [0]


def test_a_slow_executor_is_no_skew(tmp_path):
    """Its tasks take four times as long; the rows are those of many keys, a bit uneven."""
    log = MadeLog()
    log.query(join_plan())
    rows = [400 + 37 * (task % 5) for task in range(32)]
    log.stage(rows, seconds=[8 if task % 8 == 3 else 2 for task in range(32)])
    for event in log.events:
        if event["Event"] == "SparkListenerTaskEnd" and event["Task Info"]["Index"] % 8 == 3:
            event["Task Info"]["Executor ID"] = "2"
    diagnosis = diagnose(log, tmp_path)
    assert not diagnosis.skew
    assert "stragglers" in {finding.kind for finding in diagnosis.others}


def test_slots_that_other_stages_use_are_waiting_not_skew(tmp_path):
    """Two stages run at once: tasks of the first are launched late, and every one takes as long as the others."""
    log = MadeLog()
    log.query(join_plan())
    log.stage([480 + task for task in range(16)], seconds=[2] * 16)
    tasks = [event["Task Info"] for event in log.events if event["Event"] == "SparkListenerTaskEnd"]
    for place, info in enumerate(tasks):
        late = 1500 * place
        info["Launch Time"] += late
        info["Finish Time"] += late
    diagnosis = diagnose(log, tmp_path)
    assert not diagnosis.skew
    assert {finding.kind for finding in diagnosis.others} <= {"waiting", "few-tasks", "waves"}


def test_in_a_union_tasks_that_read_files_are_no_sign_of_skew(tmp_path):
    plan = node("Union", None, node("Window", None, exchange("customer#1L")), node("Scan"))
    rows, read = [5000] * 8 + [0] * 8, [0] * 8 + [100] * 8
    seconds = [1 + (a + b) / 1000 for a, b in zip(rows, read, strict=True)]
    assert not skew_of(plan, tmp_path, rows, input_rows=read, seconds=seconds)
    rows[7] = 40_000
    seconds[7] = 41
    (finding,) = skew_of(plan, tmp_path, rows, input_rows=read, seconds=seconds)
    assert (finding.keys, finding.load) == (("customer",), "rows read")


def test_waves_serial_stages_and_few_tasks(tmp_path):
    log = MadeLog(slots=4)
    log.query(node("Scan"))
    log.stage([0] * 17, seconds=[10] * 17)
    log.stage([0], seconds=[30])
    log.stage([0] * 2, seconds=[30] * 2)
    kinds = {finding.stage: (finding.kind, finding.text) for finding in diagnose(log, tmp_path).findings}
    assert kinds[0] == ("waves", "17 tasks on 4 slots: 5 waves, the last with 1 task")
    assert kinds[1] == ("serial", "one task did everything: serial, 30.0 s")
    assert kinds[2][0] == "few-tasks"


def test_micro_batches_are_one_finding(tmp_path):
    log = MadeLog()
    for batch in range(20):
        plan = node("StateStoreSave", None, exchange("customer#1L"))
        log.query(plan, batch, f"query\nbatch = {batch}")
        log.stage(HOT, execution=batch, per_row=0.0005, name="start at job.py:3")
    (finding,) = diagnose(log, tmp_path).skew
    assert len(finding.stages) == 20
    assert finding.lost > 20


def test_what_has_ended_is_forgotten(tmp_path):
    log = MadeLog()
    for query in range(50):
        log.query(over("Window"), query)
        log.query(over("Window", None, "Write"), 1000)  # repeats the plan
        log.stage(HOT, execution=query)
        log.add(f"{SQL}SparkListenerSQLExecutionEnd", executionId=query, time=log.clock)
    analysis = Analysis(Application())
    reader = EventReader(analysis.application, analysis.query_ended)
    reader.read(log.end().data.splitlines())
    assert not analysis.application.stages
    assert all(query.plan is None for id, query in analysis.application.queries.items() if id != 1000)
    assert len(reader._wanted) == 2
    (finding,) = analysis.finish()
    assert (finding.count, finding.stage, len(finding.stages)) == (50, 0, 50)


def test_retries_killed_copies_and_a_stage_that_ran_twice(tmp_path):
    log = MadeLog()
    log.query(join_plan())
    stage = log.stage(EVEN)
    log.stage(EVEN, attempt=1)
    copy = {"shuffle": (484, 48_400)}
    for reason in ("TaskKilled", "ExceptionFailure"):
        task = log.task(stage, 0, 3, log.clock - 900, log.clock, {}, copy, reason=reason, speculative=True)
        log.events.append(task)
    log.add("SparkListenerExecutorRemoved", **{"Executor ID": "1", "Removed Reason": "Executor Process Lost"})
    log.add("SparkListenerExecutorRemoved", **{"Executor ID": "2", "Removed Reason": "idle for 60 seconds"})
    diagnosis = diagnose(log, tmp_path)
    assert not diagnosis.skew
    texts = [finding.text for finding in diagnosis.findings if finding.kind == "retries"]
    assert texts == ["1 failed task (0.9 s of task time), 1 executor lost", "stage 0 was run more than once"]


def test_a_log_without_sql_says_that_it_knows_no_keys(tmp_path):
    log = MadeLog()
    log.stage(HOT, execution=None)
    diagnosis = diagnose(log, tmp_path)
    assert not diagnosis.skew
    assert "key columns are not" in diagnosis.notes[0]
    assert diagnosis.verdict.startswith("Uneven tasks; whether a key is to blame is unknown")
    assert diagnosis.others[0].kind == "uneven-input"


def test_a_bad_line_and_a_strange_event_are_noted(tmp_path):
    log = skewed_log()
    lines = log.data.splitlines(keepends=True)
    strange = [
        b'{"Event":"SparkListenerTaskEnd","Stage ID":"x"}\n',
        b"not json\n",
        b"[1]\n",
        b'{"Event":7}\n',
        b"\xff\n",
    ]
    path = tmp_path / "log"
    path.write_bytes(b"".join([*lines[:5], *strange, *lines[5:]]))
    (diagnosis,) = diagnose_log(path)
    assert len(diagnosis.skew) == 1
    assert diagnosis.notes == ("5 lines are not a readable event and left out",)


def test_executors_that_come_and_go_are_not_added_up(tmp_path):
    log = MadeLog(slots=8)
    log.query(adaptive(join_plan()))
    for number in range(2, 12):
        gone = {"Timestamp": BEGIN, "Executor ID": str(number - 1), "Removed Reason": "Executor killed by driver: idle"}
        log.add("SparkListenerExecutorRemoved", **gone)
        info = {"Host": "h", "Total Cores": 8}
        log.add("SparkListenerExecutorAdded", **{"Timestamp": BEGIN, "Executor ID": str(number), "Executor Info": info})
    log.stage([10_000] * 16, other_rows=[10] * 16)
    assert diagnose(log, tmp_path).others == ()  # 16 tasks on 8 slots, in two full waves


def test_stages_that_run_side_by_side_lose_the_same_seconds(tmp_path):
    log = MadeLog(slots=64)
    for execution in range(5):
        log.clock = BEGIN
        log.query(adaptive(join_plan()), execution=execution, description=f"query {execution}")
        log.stage(HOT, other_rows=[10] * 16, execution=execution, name="save at job.py:7" if execution else "other")
    found = diagnose(log, tmp_path)
    single, several = sorted(found.skew, key=lambda finding: finding.count)
    assert several.count == 4
    assert (several.lost, several.wall) == (pytest.approx(single.lost), pytest.approx(single.wall))
    assert f"at most {single.lost:.1f} of {found.facts['seconds']:.1f} s lost" in found.verdict
    assert found.facts["lost_to_skew_s"] == pytest.approx(single.lost, abs=0.001)


def rounds(*rights, names=("customer#1L",) * 9):
    log = MadeLog()
    for execution, right in enumerate(rights):
        plan = join_by(names[execution], right)
        log.query(adaptive(plan), execution=execution)
        log.stage(HOT, other_rows=[10] * 16, execution=execution, name="save at NativeMethodAccessorImpl.java:0")
        log.add(f"{SQL}SparkListenerSQLExecutionEnd", executionId=execution, time=log.clock)
    return log


def test_rounds_of_a_loop_are_one_finding_whose_figures_agree(tmp_path):
    (finding,) = diagnose(rounds("id#2L", "id#5L", "id#8L"), tmp_path).skew
    assert (finding.count, finding.stages) == (3, (0, 1, 2))
    assert (finding.lost, finding.wall) == (pytest.approx(3 * 3.28, abs=0.02), pytest.approx(3 * 6.25))
    assert finding.time["skew"] == pytest.approx(finding.lost)
    assert sum(finding.time[part] for part in ("even", "skew", "stragglers", "waiting")) == pytest.approx(finding.wall)
    assert f"at most {finding.lost:.1f} of {finding.wall:.1f} s lost" in finding.text


def test_a_second_application_in_one_file_is_left_out_and_named(tmp_path):
    log, second = skewed_log(), skewed_log(name="second", version="3.5.0")
    once = diagnose_log(log.write(tmp_path, "once"))[0]
    second.events[3]["App ID"] = "app-2"
    log.events += second.events
    (both,) = diagnose_log(log.write(tmp_path, "both"))
    assert both.findings == once.findings
    assert both.facts["spark"] == "4.0.0"
    assert any("another application follows in the same log (second)" in note for note in both.notes)


def test_uneven_stages_without_a_key_are_not_called_even(tmp_path):
    log = MadeLog()
    log.query(adaptive(join_plan()))
    log.stage(EVEN, other_rows=[10] * 16)
    log.stage(HOT, execution=None, name="groupByKey at job.py:9")
    for event in log.events[-17:]:
        event.get("Task Info", {}).pop("Accumulables", None)
    found = diagnose(log, tmp_path)
    assert "stage 1 is uneven without a key in the log" in found.verdict
    assert "nothing to spread" not in found.verdict


@pytest.mark.parametrize(
    ("plan", "stage", "kind", "text"),
    [
        (node("Scan"), {"input_rows": [9000, 9000, *[0] * 14]}, "uneven-input", "14 of 16 tasks read no rows"),
        (join_plan(), {}, "stragglers", "no difference in rows or bytes explains it"),
        (
            over("HashAggregate", "HashAggregate(keys=[customer#1L])"),
            {},
            "stragglers",
            "unexplained: rows are folded before the shuffle",
        ),
    ],
)
def test_slow_tasks_for_which_no_key_is_to_blame(plan, stage, kind, text, tmp_path):
    log = MadeLog()
    log.query(plan)
    read = stage.get("input_rows")
    seconds = [1 + rows / 450 for rows in read] if read else [20 if task == 11 else 1.5 for task in range(16)]
    log.stage([0] * 16 if read else EVEN, seconds=seconds, **stage)
    diagnosis = diagnose(log, tmp_path)
    assert not diagnosis.skew
    assert (diagnosis.others[0].kind, text in diagnosis.others[0].text) == (kind, True)


def test_a_log_that_is_not_complete(tmp_path):
    log = skewed_log()
    (tmp_path / "app-1.inprogress").write_bytes(log.data[:-30])
    assert "still being written" in diagnose_log(tmp_path / "app-1.inprogress")[0].notes[-1]
    log.events.pop()
    assert "ends early" in diagnose_log(log.write(tmp_path))[0].notes[-1]
    # Spark writes the events of tasks 100 kB at a time, and the start of a job at once.
    log = MadeLog()
    log.query(join_plan())
    log.stage(EVEN)
    verdict = diagnose_log(log.write(tmp_path))[0].verdict
    assert verdict.startswith("No key skew in the jobs that ended; the log stops while another one runs")
    log.add("SparkListenerJobEnd", **{"Job ID": 0})
    assert diagnose_log(log.write(tmp_path))[0].verdict.endswith("There is nothing to spread.")
