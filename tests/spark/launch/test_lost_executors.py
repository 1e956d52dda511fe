"""Retried tasks and lost executors: every row arrives once, on the same worker, and results are the same."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark import cloudpickle

from frames import places, setting, skewed
from keyspread.operators import Count
from keyspread.spark import aggregate, plan, spread
from keyspread.spark._launch.cluster import Cluster, ClusterError, running_processes

HERE = Path(__file__).parent
TWO = ["d-choices", "planned"]
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def fail_once(batches):
    """Pass on the rows; the first attempt of the second partition fails halfway."""
    from pyspark import TaskContext

    task = TaskContext.get()
    for number, batch in enumerate(batches):
        if number == 3 and task.partitionId() == 1 and task.attemptNumber() == 0:
            raise OSError("lost on purpose")
        yield batch


@pytest.fixture
def small_batches(spark):
    with setting(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", 100):
        yield


@pytest.mark.parametrize("scheme", TWO)
def test_a_task_that_fails_while_it_sends(spark, small_batches, scheme):
    """The second attempt starts from the beginning, not from the state of the first."""
    rows = skewed(spark, 2000, 2)
    options = {"plan": plan(rows, "key", 4)} if scheme == "planned" else {"scheme": scheme}
    flaky = rows.mapInArrow(fail_once, rows.schema)
    assert places(spread(flaky, "key", 4, **options)) == places(spread(rows, "key", 4, **options))


@pytest.mark.parametrize("scheme", TWO)
def test_a_worker_that_fails_halfway(spark, small_batches, scheme):
    rows = skewed(spark, 2000, 2)
    options = {"plan": plan(rows, "key", 4)} if scheme == "planned" else {"scheme": scheme}
    out = spread(rows, "key", 4, **options)
    assert places(out.mapInArrow(fail_once, out.schema)) == places(out)


def test_an_aggregate_over_rows_that_fail_once(spark, small_batches):
    """The plan is counted from the same rows, so counting fails once too."""
    rows = skewed(spark, 2000, 2)
    found = aggregate(rows.mapInArrow(fail_once, rows.schema), "key", Count(), 4, "planned")
    assert Counter(found.collect()) == Counter(rows.groupBy("key").count().collect())


# A cluster


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory):
    """Run every job of lose_executors.py undisturbed and with an executor killed, and return what it printed."""
    folder = tmp_path_factory.mktemp("scenarios")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parents[1]), environment.get("PYTHONPATH", "")])  # frames.py
    with Cluster(workers=2, memory="600m", patience=180) as cluster:
        settings = {
            **cluster.settings,
            "spark.driver.memory": "600m",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # both executors from the start
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
            "spark.shuffle.io.retryWait": "100ms",  # do not wait long for a killed executor
        }
        arguments = [HERE / "lose_executors.py", cluster.url, json.dumps(settings), str(folder)]
        with subprocess.Popen(
            [sys.executable, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=(folder / "stderr").open("wb"),
            text=True,
        ) as driver:
            killed = {}
            disturbing = threading.Thread(target=disturb, args=(cluster, folder, driver, killed), daemon=True)
            disturbing.start()
            printed = driver.stdout.read()
        disturbing.join()
        assert driver.returncode == 0, (folder / "stderr").read_text()[-5000:]
    found = {one["scenario"]: one for one in map(json.loads, printed.splitlines())}
    assert not [one["failed"] for name, one in found.items() if one["failed"] and "shuffled" not in name]
    return found, killed


def disturb(cluster, folder, driver, killed):
    """Kill an executor when two tasks behind the spread run, one per executor, then let the tasks continue."""
    for name in ("d-choices", "planned", "operator", "d-choices-shuffled", "planned-shuffled"):
        here = folder / f"{name}-disturbed"
        while driver.poll() is None and len(list(here.glob("ready-*"))) < 2:
            time.sleep(0.02)
        if driver.poll() is not None:
            return
        killed[name] = cluster.kill_executor()
        (here / "go").touch()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("scheme", TWO)
def test_a_lost_executor_moves_no_row(scenarios, scheme):
    found, killed = scenarios
    quiet, disturbed = found[f"{scheme}-quiet"], found[f"{scheme}-disturbed"]
    assert scheme in killed
    assert Counter(partition for partition, _ in quiet["reads"]) == {0: 1, 1: 1, 2: 1, 3: 1}
    # The output of the killed executor is lost, so some partitions were read and routed again, but not all.
    again = Counter(partition for partition, _ in disturbed["reads"])
    assert set(again) == {0, 1, 2, 3}
    assert max(again.values()) > 1
    assert sorted(id_ for _, id_, _, _ in disturbed["rows"]) == list(range(2000))
    assert sorted(disturbed["rows"]) == sorted(quiet["rows"])
    assert {at for at, *_ in quiet["rows"]} == {0, 1, 2, 3}


@pytest.mark.slow
@pytest.mark.spark
def test_a_lost_executor_changes_no_result(scenarios):
    found, killed = scenarios
    assert "operator" in killed
    assert sum(n for _, n, _ in found["operator-quiet"]["rows"]) == 2000
    assert max(Counter(partition for partition, _ in found["operator-disturbed"]["reads"]).values()) > 1
    assert sorted(found["operator-disturbed"]["rows"], key=repr) == sorted(found["operator-quiet"]["rows"], key=repr)
    counted = Counter(key for _, _, key, _ in found["planned-quiet"]["rows"])
    assert {key: n for key, n, _ in found["operator-disturbed"]["rows"]} == dict(counted)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("scheme", TWO)
def test_a_lost_executor_loses_no_row_behind_a_shuffle(scenarios, scheme):
    """The order of rows changes, so rows may change their worker: Spark's checksums notice.

    Spark then re-runs the rest, or ends the job if tasks of its last stage have already returned rows.
    """
    found, killed = scenarios
    disturbed = found[f"{scheme}-shuffled-disturbed"]
    assert f"{scheme}-shuffled" in killed
    assert max(Counter(partition for partition, _ in disturbed["reads"]).values()) > 1
    if disturbed["failed"]:
        assert "shuffle map stage with indeterminate output was failed and retried" in disturbed["failed"]
    else:
        assert sorted(id_ for _, id_, _, _ in disturbed["rows"]) == list(range(2000))


@pytest.mark.spark
def test_a_cluster_that_does_not_start_says_why_and_leaves_no_process():
    before = set(running_processes())
    cluster = Cluster(workers=1, patience=0)
    with pytest.raises(ClusterError, match=r"(?s)the cluster was not ready within 0 s; the end of .*master\.log:"):
        cluster.__enter__()
    left = {
        pid: process
        for pid, process in running_processes().items()
        if pid not in before and str(cluster.folder) in process[1]
    }
    assert left == {}
    assert cluster.executors() == []
    with pytest.raises(ClusterError, match="there is no executor to kill"):
        cluster.kill_executor()
    cluster.stop()
    assert (cluster.folder / "master.log").exists()
