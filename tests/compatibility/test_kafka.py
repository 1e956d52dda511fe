"""Kafka on this version of Spark, with a real broker and the connector of this Spark if the registry has it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from kafka_broker import connector_jars

pytest.importorskip("pyspark")

from keyspread.errors import InputError
from keyspread.spark import spread
from keyspread.spark._engine.capabilities import has_realtime_exchange
from keyspread.spark.kafka import connector

CASES = Path(__file__).parents[1] / "spark" / "kafka" / "kafka_cases.py"
REALTIME_CASES = Path(__file__).parents[1] / "spark" / "realtime" / "realtime_cases.py"


@pytest.mark.slow
@pytest.mark.spark
def test_source_and_sink_with_a_real_broker(instead):
    """Kafka source and sink, with a real broker."""
    assert passed_in_a_process_of_their_own(str(CASES)) >= 7  # all there are
    name, _ = connector_jars()
    if not connector().endswith(name):  # the registry lacks a part of the one that belongs to this Spark
        instead(f"yes, with the connector of {name.split(':')[1].split()[0]}")


@pytest.mark.slow
@pytest.mark.spark
def test_spread_record_by_record(spark, instead):
    """`spread(…, realtime=True)`."""
    if has_realtime_exchange(spark):
        assert passed_in_a_process_of_their_own(str(REALTIME_CASES), "-k", "every_record_is_on_the_worker") == 3
        return
    stream = spark.readStream.format("rate").load()
    with pytest.raises(
        InputError, match=r"^realtime=True needs a Spark that exchanges rows in real-time mode"
    ) as caught:
        spread(stream, "value", 2, realtime=True)
    assert "\n" not in str(caught.value)
    instead("refused")


def passed_in_a_process_of_their_own(*arguments):
    """Run cases that need a session of their own; skip if they were skipped, and return how many passed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *arguments],
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
    return int(passed[1])
