"""From a log to the hot keys in the data, and the findings of a block in a running session."""

import subprocess
import sys

import pytest

from keyspread.diagnosis import diagnose_log
from keyspread.errors import InputError
from keyspread.spark import diagnosing
from keyspread.spark.diagnose import with_values
from made_logs import HOT, SQL, MadeLog, exchange, node, skewed_log


@pytest.fixture(scope="module")
def orders(spark):
    return spark.range(1000).selectExpr("if(id % 2 = 0, 57, id) AS customer", "id AS amount")


def test_the_keys_of_a_log_are_counted_in_the_data(orders, tmp_path):
    (diagnosis,) = with_values(diagnose_log(skewed_log().write(tmp_path)), orders)
    assert diagnosis.skew[0].values[0] == {"key": "57", "null": False, "rows": 501, "share": 0.501}


def test_a_computed_key_is_computed_again_and_another_is_noted(orders, tmp_path):
    """Two keys have the same name; the third is not in the data, and what the fourth is the log does not show."""
    scan = node("Scan parquet ", "FileScan parquet [customer#9L,nobody#4] Batched: true")
    keys = {
        "bucket#1": "(customer#9L % 50) AS bucket#1",
        "bucket#2": "(customer#9L % 7) AS bucket#2",
        "nobody#4": "nobody#4",
        "customer#5": "concat(customer#9L, -) AS customer#5",
    }
    log = MadeLog()
    for execution, (key, definition) in enumerate(keys.items()):
        log.query(node("Window", None, exchange(key, node("Project", f"Project [{definition}]", scan))), execution)
        log.stage(HOT, execution=execution, name=f"collect at job.py:{execution}")
        log.add(f"{SQL}SparkListenerSQLExecutionEnd", executionId=execution, time=log.clock)
    (diagnosis,) = with_values(diagnose_log(log.end().write(tmp_path)), orders)
    values = {finding.definitions[0]: [value["key"] for value in finding.values[:1]] for finding in diagnosis.skew}
    assert values == {"customer % 50": ["7"], "customer % 7": ["1"], "nobody": [], "": []}
    assert "the data has no column 'nobody'; its columns are customer, amount" in diagnosis.notes
    assert "'customer' is not counted: the log does not show that it is a column as it was read" in diagnosis.notes[-1]


def test_without_an_event_log_one_line_says_what_to_do(spark):
    with (
        pytest.raises(InputError, match=r"event log of the session, which is off: start Spark with"),
        diagnosing(spark),
    ):
        pytest.fail("the block must not run")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("how", ["master", pytest.param("remote", marks=pytest.mark.connect)])
def test_the_queries_of_a_block_are_diagnosed(how, tmp_path):
    # Needs a session of its own, whose log is on. Over Connect, the log is that of the server.
    program = f"""
from keyspread.spark import diagnosing, session
spark = session({how}="local[4]", **{{"spark.eventLog.enabled": "true", "spark.eventLog.dir": "file://{tmp_path}",
    "spark.sql.shuffle.partitions": 8, "spark.sql.adaptive.coalescePartitions.enabled": "false"}})
spark.range(10).groupBy("id").count().collect()
rows = spark.range(2000).selectExpr("if(id % 2 = 0, 7, id) AS customer", "id AS amount")
with diagnosing(spark) as seen:
    rows.repartition(8, "customer").selectExpr("java_method('java.lang.Thread', 'sleep', 2L) AS z").collect()
assert seen.diagnosis.skew[0].columns == ("customer",), seen.diagnosis
spark.stop()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Key skew by customer" in done.stdout


@pytest.mark.slow
@pytest.mark.spark
def test_a_job_that_is_killed_while_its_hot_task_runs(tmp_path):
    """The log at a moment when only the hot task runs, the same job cancelled, and the session stopped."""
    program = f"""
import pathlib, shutil, threading, time
from keyspread.diagnosis import diagnose_log
from keyspread.spark import diagnosing, session

folder = pathlib.Path({str(tmp_path)!r})
spark = session(master="local[4]", **{{"spark.eventLog.enabled": "true", "spark.eventLog.dir": folder.as_uri(),
    "spark.eventLog.rolling.enabled": "false", "spark.eventLog.compress": "false", "spark.sql.shuffle.partitions": 8,
    "spark.sql.adaptive.coalescePartitions.enabled": "false"}})
rows = spark.range(4000).selectExpr("if(id % 2 = 0, 7, id) AS customer", "id AS amount")

def hang():
    try:
        slow = "java_method('java.lang.Thread', 'sleep', 40L) AS z"
        rows.repartition(8, "customer").selectExpr(slow).collect()
    except Exception:
        pass  # it is killed below

def begun():
    job = threading.Thread(target=hang)
    job.start()
    tracker = spark.sparkContext.statusTracker()
    stages = []
    while not any(stage.numTasks - stage.numCompletedTasks == 1 and stage.numCompletedTasks == 7 for stage in stages):
        time.sleep(0.1)
        assert job.is_alive(), "the hot task ended before it was seen alone"
        stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        stages = [stage for stage in stages if stage is not None]
    spark.range(1).count()  # the start of a job makes Spark write what it holds back: the tasks that ended
    time.sleep(1)  # the log is written by another thread
    return job

def check(diagnosis, state):
    (finding,) = diagnosis.skew
    assert (finding.columns, finding.unfinished) == (("customer",), 1), finding
    assert finding.busiest > 2000, finding
    assert state in finding.text, finding.text
    print(diagnosis.verdict)

(log,) = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
job = begun()
shutil.copy(log, folder / "copy.inprogress")  # what kill -9 leaves
check(diagnose_log(folder / "copy.inprogress")[0], "still running")
spark.sparkContext.cancelAllJobs()
job.join()
time.sleep(1)
shutil.copy(log, folder / "cancelled.inprogress")
check(diagnose_log(folder / "cancelled.inprogress")[0], "")
spark.stop()
(log,) = (entry for entry in folder.iterdir() if entry.name.startswith("local"))
check(diagnose_log(log)[0], "")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Key skew by customer (if (((id % 2) = 0)) 7 else id): at least") == 3
