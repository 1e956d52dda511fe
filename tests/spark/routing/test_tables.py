"""Tables of a plan: the same routing as literals and as data, and a short text at any number of workers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark")

import keyspread as ks
import naive
from frames import hashes, places, sent_by, setting, skewed
from keyspread.planned.plan import HotKey
from keyspread.spark import plan, spread
from keyspread.spark._routing import planned_sql as tables

HERE = Path(__file__).parent


@pytest.mark.connect
@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize("threshold", [None, 1.0], ids=["hot keys", "no hot key"])
def test_long_tables_route_as_the_plan_does(spark, monkeypatch, adaptive, threshold):
    rows = skewed(spark)
    made = plan(rows, "key", 7, threshold=threshold)
    monkeypatch.setattr(tables, "LONGEST_LITERAL", 0)
    with setting(spark, "spark.sql.adaptive.enabled", adaptive):
        assert places(spread(rows, "key", 7, plan=made)) == sent_by(made, hashes(rows, "key"))


def test_counting_with_long_tables(spark, monkeypatch):
    expected = plan(skewed(spark), "key", 7)
    monkeypatch.setattr(tables, "LONGEST_LITERAL", 0)
    assert plan(skewed(spark), "key", 7) == expected


def test_a_stream_by_a_stored_plan_with_long_tables(spark, monkeypatch, tmp_path):
    skewed(spark).write.parquet(str(tmp_path / "rows"))
    made = plan(skewed(spark), "key", 7, threshold=1.0)
    monkeypatch.setattr(tables, "LONGEST_LITERAL", 0)
    stream = spark.readStream.schema("id long, key string, value long").parquet(str(tmp_path / "rows"))
    seen = {}
    out = spread(stream, "key", 7, "planned", plan=made)
    query = out.writeStream.foreachBatch(lambda batch, _: seen.update(places(batch))).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    batch = spark.read.parquet(str(tmp_path / "rows"))
    assert seen == places(spread(batch, "key", 7, plan=made))


def big_plan(workers, pieces):
    """Return a plan for very many workers, with one hot key that is cut into many pieces."""
    hot = int(ks.hash_keys(["hot"])[0])
    head = [HotKey(*naive.cut_by_weight(hot, dict.fromkeys(range(pieces), 5)))]
    buckets = (np.arange(64 * workers) * 7919 % workers).astype(np.int32)
    return ks.Plan(workers, buckets, head, np.ones(workers, np.int64))


def test_the_text_of_a_plan_for_ten_thousand_workers(spark, capsys):
    rows = skewed(spark)
    made = big_plan(10_000, 3_000)
    for one in (made, ks.Plan(10_000, made.buckets, (), made.loads)):
        spread(rows, "key", 10_000, plan=one).explain(extended=True)  # four plans
        assert len(capsys.readouterr().out) < 100_000
        spread(rows, "key", 10_000, plan=one).explain(mode="formatted")
        assert len(capsys.readouterr().out) < 100_000


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("hot", [True, False])
def test_what_an_action_adds_to_the_event_log(tmp_path, hot):
    """An action by a plan for 10,000 workers writes less than 1 MB more than one behind repartition."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parents[1]), str(HERE), environment.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, "-c", _ACTIONS, str(tmp_path), str(int(hot))], env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    plain, ours = json.loads(ran.stdout.splitlines()[-1])
    assert ours - plain < 1_000_000


_ACTIONS = """
import json, sys
from pathlib import Path
import keyspread as ks
import naive
from frames import skewed
from keyspread.spark import session, spread
from test_tables import big_plan
folder, hot = Path(sys.argv[1]), sys.argv[2] == "1"
settings = {"enabled": "true", "dir": folder.as_uri(), "rolling.enabled": "false"}
spark = session(master="local[2]", **{f"spark.eventLog.{name}": value for name, value in settings.items()})
made, rows = big_plan(10_000, 3_000), skewed(spark)
made = made if hot else ks.Plan(10_000, made.buckets, (), made.loads)
sizes = [0]
for moved in (rows.repartition(10_000, "key"), spread(rows, "key", 10_000, plan=made)):
    moved.take(1)
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    sizes.append(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()))
spark.stop()
print(json.dumps([sizes[1] - sizes[0], sizes[2] - sizes[1]]))
"""
