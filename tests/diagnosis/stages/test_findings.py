"""What a log means: hot keys with operator and remedy, adaptive execution's reasons, and what is no skew."""

import json

import pytest

from keyspread.diagnosis import diagnose_log
from keyspread.diagnosis.log.application import Application
from keyspread.diagnosis.log.events import EventReader
from keyspread.diagnosis.stages.analysis import Analysis
from keyspread.errors import InputError
from made_logs import BEGIN, EVEN, HOT, SQL, MadeLog, adaptive, exchange, join_plan, node, skewed_log


def diagnose(log, folder):
    (diagnosis,) = diagnose_log(log.end().write(folder))
    return diagnosis


def skew_of(plan, folder, rows=HOT, *, version="4.0.0", settings=None, **stage):
    log = MadeLog(version=version, settings=settings or {})
    log.query(plan)
    log.stage(rows, **stage)
    return diagnose(log, folder).skew


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


def over(name, text=None, *above):
    """Return a plan in which an operator, and others above it, read an exchange by customer."""
    plan = node(name, text, exchange("customer#1L"))
    for operator in above:
        plan = node(operator, None, plan)
    return plan


LISTS = "ObjectHashAggregate(keys=[customer#1L], functions=[collect_list(amount#3L, 0, 0), sum(a#1)])"
MAX = "HashAggregate(keys=[customer#1L], functions=[merge_max(a#1)])"
COGROUP = node("FlatMapCoGroupsInPandas", None, exchange("customer#1L"), exchange("customer#2L", number=2))
RANGE = {**exchange("x"), "simpleString": "Exchange rangepartitioning(customer#1L ASC NULLS FIRST, 16)"}
WRITE = "Execute InsertIntoHadoopFsRelationCommand"
ON = 'on=[("customer", "id")]'
PLANS = {
    "sort-merge join": (join_plan(), f"join(left, right, {ON})"),
    "sort-merge join, full outer": (join_plan("FullOuter"), f'join(left, right, {ON}, how="full")'),
    "shuffled hash join, left outer": (join_plan("LeftOuter", name="ShuffledHashJoin"), f'{ON}, how="left")'),
    "window": (over("Window"), 'spread(windowed, "customer", workers=16)'),
    "applyInPandas": (over("FlatMapGroupsInPandas"), 'aggregate(df, "customer", MyOperator(), workers=16)'),
    "applyInArrow": (over("FlatMapGroupsInArrow"), "mapInPandas(f, schema)"),
    "aggregate (collect_list, sum)": (over("ObjectHashAggregate", LISTS), "aggregate(df,"),
    "repartition before a write": (over("WriteFiles", None, WRITE), 'for_write(df, "customer")'),
    "repartition before mapInPandas": (over("MapInPandas"), "spread("),
    "repartition": (over("Project"), 'spread(df, "customer", workers=16)'),
    "stateful aggregate": (over("StateStoreSave"), "aggregate(stream,"),
    "stateful aggregate (max)": (over("HashAggregate", MAX, "StateStoreSave"), "aggregate(stream,"),
    "cogroup.applyInPandas": (COGROUP, 'cogroup(left, right, "customer", f, schema, per_left=True)'),
    "sort": (node("Sort", None, RANGE), 'orderBy("customer", F.monotonically_increasing_id())'),
}


@pytest.mark.parametrize("operator", PLANS)
def test_every_operator_and_its_remedy(operator, tmp_path):
    plan, code = PLANS[operator]
    (finding,) = skew_of(plan, tmp_path)
    assert (finding.operator, finding.keys) == (operator, ("customer",))
    assert any(code in remedy.code for remedy in finding.remedies)


def test_several_keys_a_constant_and_any_letters(tmp_path):
    keys = "größe der Firma#1, 顧客#2, 1#3, bucket#4"
    project = node("Project", "Project [1 AS 1#3, (customer#9L % 50) AS bucket#4]")
    (finding,) = skew_of(node("Window", None, exchange(keys, project)), tmp_path)
    assert finding.keys == ("größe der Firma", "顧客", "bucket (customer % 50)")
    assert '["größe der Firma", "顧客", F.expr("customer % 50").alias("bucket")]' in finding.remedies[0].code


def aggregate_by(keys, definitions=""):
    below = node("Project", f"Project [{definitions}]") if definitions else node("Scan")
    text = f"ObjectHashAggregate(keys=[{keys}], functions=[collect_list(a#9, 0, 0)])"
    return node("ObjectHashAggregate", text, exchange(keys, below))


@pytest.mark.parametrize(
    ("plan", "key"),
    [
        (aggregate_by("_groupingexpression#5", "upper(name#3) AS _groupingexpression#5"), 'F.expr("upper(name)")'),
        (aggregate_by("_groupingexpression#5", "coalesce(name#3, x) AS _groupingexpression#5"), "key"),
        (aggregate_by("day#5", "date_trunc(day, at#3, None) AS day#5"), '"day"'),
        (aggregate_by("client.code#5"), '"client.code"'),
        (aggregate_by('a "b"#5'), '"a \\"b\\""'),
        (aggregate_by("customer#5L, region#6, spark_grouping_id#7L"), '["customer", "region"]'),
        (aggregate_by("a#1, b#2, ... 7 more fields"), "key"),  # not by two of nine columns
        (aggregate_by("_groupingexpression#5", "NOT flag#3 AS _groupingexpression#5"), 'F.expr("NOT flag")'),
        (aggregate_by("_groupingexpression#5", "-amount#3L AS _groupingexpression#5"), 'F.expr("-amount")'),
        (aggregate_by("_groupingexpression#5", "concat(a#3, -, b#4) AS _groupingexpression#5"), "key"),
    ],
)
def test_a_key_is_written_as_the_plan_shows_it(plan, key, tmp_path):
    (finding,) = skew_of(plan, tmp_path)
    assert finding.remedies[0].code == f"keyspread.spark.aggregate(df, {key}, MyOperator(), workers=16)"
    assert ("what the job groups by" in finding.remedies[0].text) == (key == "key")


def test_a_time_window_is_no_key(tmp_path):
    start = "named_struct(start, precisetimestampconversion(at#3-T600000ms))"
    plan = aggregate_by("window#5-T600000ms", f"{start} AS window#5-T600000ms")
    (finding,) = skew_of(plan, tmp_path)
    assert (finding.keys, finding.remedies[0].code) == (("window",), "")
    assert "window= and time=" in finding.remedies[0].text


def join_by(left, right, rest=""):
    plan = join_plan()
    plan["simpleString"] = f"SortMergeJoin [{left}], [{right}], Inner{rest}"
    return plan


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        (join_by("customer#1L", "customer#2L"), 'left, right, on="customer")'),
        (join_by("a#1, b#3", "a#2, b#4"), 'left, right, on=["a", "b"])'),
        (join_by("cast(a#1 as bigint)", "b#2L"), 'left, right, on=[("a", "b")])'),
        (
            join_by("upper(a#1)", "b#2"),
            'left.withColumn("keyspread_key", F.expr("upper(a)")), right.withColumn("keyspread_key", F.expr("b")), '
            'on="keyspread_key").drop("keyspread_key")',
        ),
        (
            join_by("coalesce(a#1, x)", "b#2"),
            'left.withColumn("keyspread_key", left_key), right.withColumn("keyspread_key", F.expr("b")), '
            'on="keyspread_key").drop("keyspread_key")',
        ),
        (  # a column of this name is not replaced
            join_by("upper(keyspread_key#1)", "key#2"),
            'left.withColumn("keyspread_key2", F.expr("upper(keyspread_key)")), '
            'right.withColumn("keyspread_key2", F.expr("key")), on="keyspread_key2").drop("keyspread_key2")',
        ),
        (join_by("coalesce(a#1, 0), isnull(a#1)", "coalesce(a#2, 0), isnull(a#2)"), 'on="a", null_safe=True)'),
        (join_by("a#1", "a#2", ", (x#3 > y#4)"), 'on="a", condition=condition)'),
    ],
)
def test_a_join_is_written_with_the_keys_of_both_sides(plan, line, tmp_path):
    (finding,) = skew_of(plan, tmp_path)
    assert line in finding.remedies[-1].code
    assert ("Replace left_key by coalesce(a, x)" in finding.remedies[-1].text) == ("left_key" in line)


BIG = {"bytes_per_row": 200_000}  # 800 MB in the hot partition


@pytest.mark.parametrize(
    ("plan", "options", "expected"),
    [
        (join_plan(), {"version": "3.1.2"}, "off"),
        (join_plan(), {"settings": {"spark.sql.adaptive.enabled": "false"}}, "off"),
        (join_plan(), {}, "on; the plan of this query is not adaptive"),
        (adaptive(join_plan()), {}, "on; 391 KiB < 256 MB: not split"),
        (adaptive(join_plan("FullOuter")), BIG, "on; full outer is never split"),
        (adaptive(join_plan("RightOuter")), BIG, "on; of a right outer join only the right side is split"),
        (adaptive(node("Window", None, exchange("customer#1L"))), BIG, "on; it splits only joins"),
        (
            adaptive(join_plan()),
            {**BIG, "settings": {"spark.sql.adaptive.skewJoin.skewedPartitionFactor": "20"}},
            "on; 16.0 × the median < 20 ×: not split",
        ),
        (
            adaptive(node("HashAggregate", "HashAggregate(keys=[customer#1L], functions=[sum(a#1)])", join_plan())),
            BIG,
            "on; the sum above needs the same keys",
        ),
        (adaptive(join_plan(name="SortMergeJoin(skew=true)")), BIG, "on; it split the partition"),
    ],
)
def test_why_adaptive_execution_did_not_act(plan, options, expected, tmp_path):
    (finding,) = skew_of(plan, tmp_path, **options)
    assert finding.adaptive == expected


def test_adaptive_execution_that_is_off_and_would_act_is_switched_on(tmp_path):
    (finding,) = skew_of(join_plan(), tmp_path, version="3.1.2", other_rows=[1000] * 16, **BIG)
    assert finding.remedies[0].code == 'spark.conf.set("spark.sql.adaptive.enabled", "true")'


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


def test_a_tiny_stage_is_no_skew(tmp_path):
    assert not skew_of(join_plan(), tmp_path, seconds=[0.3 if rows == 4000 else 0.01 for rows in HOT])


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


def test_two_tasks_of_which_one_has_everything(tmp_path):
    (finding,) = skew_of(join_plan(), tmp_path, [100, 9000])
    assert finding.keys == ("customer",)
    assert finding.lost == pytest.approx(10 - (1 + 4.55), abs=0.01)
    assert not skew_of(join_plan(), tmp_path, [5000, 9000])


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


def test_tasks_out_of_order_give_the_same_answer(tmp_path):
    log = skewed_log()
    (expected,) = diagnose_log(log.write(tmp_path, "a"))
    tasks = [event for event in log.events if event["Event"] == "SparkListenerTaskEnd"]
    others = [event for event in log.events if event["Event"] != "SparkListenerTaskEnd"]
    log.events = [*others[:-2], *reversed(tasks), *others[-2:]]
    (found,) = diagnose_log(log.write(tmp_path, "b"))
    assert found.findings == expected.findings


def test_before_spark_3_the_exchange_is_found_through_the_stage_that_writes_it(tmp_path):
    old = node("Exchange", "Exchange hashpartitioning(customer#1L, 16)", data_size_total_=12)
    old["metrics"][0]["name"] = "data size total (min, med, max)"
    log = MadeLog(version="2.4.8")
    log.query(node("Window", None, old))
    written = {"Stage ID": 0, "Stage Name": "w", "Accumulables": [{"ID": 12, "Value": "1"}]}
    log.stages = 1
    log.add("SparkListenerStageCompleted", **{"Stage Info": written})
    log.add(
        "SparkListenerJobStart", **{"Job ID": 0, "Stage Infos": [{"Stage ID": 1, "Parent IDs": [0], "Stage Name": "r"}]}
    )
    log.stage(HOT)
    (finding,) = diagnose(log, tmp_path).skew
    assert (finding.operator, finding.keys, finding.adaptive) == ("window", ("customer",), "off")


def test_a_log_without_sql_says_that_it_knows_no_keys(tmp_path):
    log = MadeLog()
    log.stage(HOT, execution=None)
    diagnosis = diagnose(log, tmp_path)
    assert not diagnosis.skew
    assert "key columns are not" in diagnosis.notes[0]
    assert diagnosis.verdict.startswith("Uneven tasks; whether a key is to blame is unknown")
    assert diagnosis.others[0].kind == "uneven-input"


def test_an_application_without_tasks(tmp_path):
    diagnosis = diagnose(MadeLog(), tmp_path)
    assert (diagnosis.findings, diagnosis.verdict) == ((), "Nothing to diagnose.")


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


def test_a_new_plan_replaces_the_first(tmp_path):
    log = MadeLog()
    log.query(adaptive(node("Window", None, exchange("old#1"))))
    log.add(f"{SQL}SparkListenerSQLAdaptiveExecutionUpdate", executionId=0, sparkPlanInfo=adaptive(join_plan()))
    log.stage(HOT)
    (finding,) = diagnose(log, tmp_path).skew
    assert finding.keys == ("customer",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"hello\nworld\n", "not an event log of Spark: it must be lines of JSON"),
        (b'{"a": 1}\n', "not an event log of Spark: it must be lines of JSON"),
        (b"BZh91AY", "not an event log of Spark but bzip2: decompress it first"),
        (b"PAR1\0\0", "not an event log of Spark but Parquet"),
        (b"\x28\xb5\x2f\xfd\0\0\0", "zstd data that is damaged"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(content, message, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        diagnose_log(path)
    assert "\n" not in str(caught.value)


CONDITIONS = ["StartsWith(url#4, prefix#5)", "url#4 LIKE pattern#5", "active#7", "url#4 IN (x#5,y#6)", "pythonUDF0#33"]


@pytest.mark.parametrize("condition", [*CONDITIONS, "NOT a#1", "BuildRight, active#7"])
def test_no_further_condition_of_a_join_is_dropped(condition, tmp_path):
    (finding,) = skew_of(join_by("a#1", "b#2", f", {condition}"), tmp_path, other_rows=[10] * 16)
    assert finding.remedies[0].code == 'left.join(F.broadcast(right), (left["a"] == right["b"]) & condition, "inner")'
    assert finding.remedies[1].code == 'keyspread.spark.join(left, right, on=[("a", "b")], condition=condition)'
    assert all("further condition" in remedy.text for remedy in finding.remedies)


@pytest.mark.parametrize(("how", "words"), [("ExistenceJoin(exists#9)", "existence"), ("LeftSingle", "left single")])
def test_a_join_of_an_unknown_type_has_no_line(how, words, tmp_path):
    (finding,) = skew_of(adaptive(join_plan(how)), tmp_path, other_rows=[10] * 16)
    assert [remedy.code for remedy in finding.remedies] == [""]
    assert f"no join of the type {words}" in finding.remedies[0].text
    assert finding.adaptive.endswith("is never split")


def test_a_join_in_which_null_equals_null_in_some_pairs_only(tmp_path):
    left, right = "coalesce(a#1L, 0), isnull(a#1L), b#3L", "coalesce(x#4L, 0), isnull(x#4L), y#5L"
    (finding,) = skew_of(join_by(left, right), tmp_path, other_rows=[10] * 16)
    broadcast, by_plan = finding.remedies
    condition = 'left["a"].eqNullSafe(right["x"]) & (left["b"] == right["y"])'
    assert broadcast.code == f'left.join(F.broadcast(right), {condition}, "inner")'
    assert (by_plan.code, "in some" in by_plan.text) == ("", True)


def test_a_join_by_more_keys_than_the_plan_shows_has_no_line(tmp_path):
    keys = "a#1, b#2, ... 6 more fields"
    (finding,) = skew_of(join_by(keys, keys), tmp_path, other_rows=[10] * 16)
    assert [remedy.code for remedy in finding.remedies] == [""]
    assert "does not show all" in finding.remedies[0].text


@pytest.mark.parametrize(
    ("order", "source"),
    [
        ("amount#3L ASC NULLS FIRST", '"amount"'),
        ("amount#3L DESC NULLS LAST", 'F.col("amount").desc()'),
        (
            "a.b#3L ASC NULLS LAST, c#4 DESC NULLS FIRST",
            'F.col("`a.b`").asc_nulls_last(), F.col("c").desc_nulls_first()',
        ),
        ("(amount#3L % 5) DESC NULLS LAST", 'F.expr("amount % 5").desc()'),
    ],
)
def test_a_sort_keeps_its_direction(order, source, tmp_path):
    text = f"Exchange rangepartitioning({order}, 16), ENSURE_REQUIREMENTS, [plan_id=1]"
    (finding,) = skew_of(node("Sort", f"Sort [{order}], true, 0", {**exchange("x"), "simpleString": text}), tmp_path)
    assert finding.remedies[0].code == f"df.orderBy({source}, F.monotonically_increasing_id())"


def test_a_key_within_another_name_is_not_that_key(tmp_path):
    above = node("HashAggregate", "HashAggregate(keys=[paid#12], functions=[partial_count(1)])", join_plan(keys="id#1"))
    rows = [20_000 * count for count in HOT]
    (finding,) = skew_of(adaptive(above), tmp_path, rows, other_rows=[10**5] * 16, per_row=1e-6)
    assert "needs the same keys" not in finding.adaptive


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


def test_different_joins_at_one_place_are_different_findings(tmp_path):
    found = diagnose(rounds("id#2L", "payer#2L"), tmp_path)
    assert [finding.count for finding in found.skew] == [1, 1]
    lines = {finding.remedies[-1].code for finding in found.skew}
    assert lines == {f'keyspread.spark.join(left, right, on=[("customer", "{name}")])' for name in ("id", "payer")}


def test_two_attempts_of_a_stage_are_one_stage(tmp_path):
    log = MadeLog()
    log.query(adaptive(join_plan()))
    for attempt in range(2):
        log.stage(HOT, other_rows=[10] * 16, attempt=attempt)
    (finding,) = diagnose(log, tmp_path).skew
    assert (finding.stages, finding.count) == ((0,), 1)


def test_the_same_log_twice_in_one_file_counts_once(tmp_path):
    log = skewed_log()
    once = diagnose_log(log.write(tmp_path, "once"))[0]
    log.events += log.events
    (twice,) = diagnose_log(log.write(tmp_path, "twice"))
    assert twice.findings == once.findings
    assert (twice.facts["tasks"], twice.facts["stages"]) == (once.facts["tasks"], once.facts["stages"])
    assert "the log is there twice: the second copy is left out" in twice.notes


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


def test_tasks_whose_end_cannot_be_read_are_no_verdict(tmp_path):
    log = skewed_log()
    for event in log.events:
        if event["Event"] == "SparkListenerTaskEnd":
            del event["Task Info"]["Finish Time"]
    (found,) = diagnose_log(log.write(tmp_path))
    assert found.verdict == "Unknown: the log does not show when a task ended."


@pytest.mark.parametrize(("name", "time"), [("Launch Time", -1), ("Launch Time", 0), ("Finish Time", 10**18)])
def test_one_impossible_time_does_not_spoil_a_stage(name, time, tmp_path):
    log = skewed_log()
    next(event for event in log.events if event["Event"] == "SparkListenerTaskEnd")["Task Info"][name] = time
    (found,) = diagnose_log(log.write(tmp_path))
    assert found.skew[0].wall == pytest.approx(6.25, abs=0.02)
    assert any("not a readable event" in note for note in found.notes)


def test_a_key_below_the_bar_is_named(tmp_path):
    log = MadeLog(slots=16)
    log.query(adaptive(join_plan()))
    log.stage([10_000] * 15 + [14_500], other_rows=[10] * 16, per_row=0.003)
    (finding,) = diagnose(log, tmp_path).findings
    assert "sort-merge join by customer. Below 1.5 × the mean no key is called hot" in finding.text


@pytest.mark.parametrize(
    ("plan", "stage", "kind", "text"),
    [
        (node("Scan"), {"input_rows": [9000, 9000, *[0] * 14]}, "uneven-input", "14 of 16 tasks read no rows"),
        (join_plan(), {}, "stragglers", "no difference in rows or bytes explains it"),
        (over("HashAggregate", MAX), {}, "stragglers", "unexplained: rows are folded before the shuffle"),
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


@pytest.mark.parametrize("wide", [True, False])
def test_a_plan_of_thousands_of_operators(wide, tmp_path):
    log = skewed_log()
    event = next(event for event in log.events if "sparkPlanInfo" in event)
    project = '{"nodeName":"Project","simpleString":"Project","metrics":[],"children":['
    plan = json.dumps(event.pop("sparkPlanInfo"))
    plan = f"{project}{plan}{f',{project}]}}' * 20_000}]}}" if wide else f"{project * 20_000}{plan}{']}' * 20_000}"
    lines = log.data.decode().splitlines()
    place = log.events.index(event)
    lines[place] = f'{lines[place][:-1]},"sparkPlanInfo":{plan}}}'
    (tmp_path / "log").write_text("\n".join(lines))
    (diagnosis,) = diagnose_log(tmp_path / "log")
    assert [finding.keys for finding in diagnosis.skew] == [("customer",)]


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
