"""Spark Connect: run the tests that are marked `connect` in a process without a classic session."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc_status")


@pytest.mark.slow
@pytest.mark.spark
def test_the_marked_tests_pass_over_connect():
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "connect", "-p", "no:cacheprovider", str(Path(__file__).parent)],
        env={**environment, "KEYSPREAD_TEST_REMOTE": "local[2]"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 30
    assert not re.search(r"skipped|xfailed", done.stdout)
