"""Kafka on this version of Spark, with a real broker and the connector of this Spark if the registry has it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from kafka_broker import connector_jars

pytest.importorskip("pyspark")

from keyspread.spark.kafka import connector

CASES = Path(__file__).parents[1] / "spark" / "kafka" / "kafka_cases.py"


@pytest.mark.slow
@pytest.mark.spark
def test_source_and_sink_with_a_real_broker(instead):
    """Kafka source and sink, with a real broker."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", str(CASES)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    skipped = re.search(r"^SKIPPED.*?: (.*)$", done.stdout, re.MULTILINE)
    if skipped:
        pytest.skip(skipped[1])
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= 10
    name, _ = connector_jars()
    if not connector().endswith(name):  # the registry lacks a part of the one that belongs to this Spark
        instead(f"yes, with the connector of {name.split(':')[1].split()[0]}")
