"""Lost shuffle blocks where Spark does not protect a retried task: every scheme routes its rows the same again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from lose_shuffle_blocks import ROWS, SCENARIOS

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def found():
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parents[1]), environment.get("PYTHONPATH", "")])  # frames.py
    ran = subprocess.run(
        [sys.executable, HERE / "lose_shuffle_blocks.py"], env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-5000:]
    return {one["scenario"]: one for one in map(json.loads, ran.stdout.splitlines())}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_row_is_lost_or_doubled(found, scenario):
    orders = found[scenario]["orders"]
    # The test is only worth something if a partition was read again, with its rows in another order.
    assert max(len(set(seen)) for seen in orders.values()) > 1
    assert sorted(found[scenario]["ids"]) == list(range(ROWS))
