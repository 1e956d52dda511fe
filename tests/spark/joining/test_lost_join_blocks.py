"""An executor is killed in the middle of a join: the same rows, none lost or doubled."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

SCRIPT = Path(__file__).parent / "lose_join_blocks.py"


@pytest.mark.slow
@pytest.mark.spark
def test_a_killed_executor_changes_no_row():
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    folders = [SCRIPT.parents[2], SCRIPT.parents[1] / "launch"]  # frames.py, lose_shuffle_blocks.py
    environment["PYTHONPATH"] = os.pathsep.join([*map(str, folders), environment.get("PYTHONPATH", "")])
    ran = subprocess.run([sys.executable, SCRIPT], env=environment, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr[-5000:]
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [one["how"] for one in found] == ["inner", "left", "full", "left_anti"]
    for one in found:
        assert len(one["expected"]) > 100
        assert one["found"] == one["expected"]
