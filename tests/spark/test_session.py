import os
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from keyspread.errors import ExtraMissingError, InputError
from keyspread.spark import session
from keyspread.spark.session import _check_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def in_a_new_process(script: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a script in a new process, because Spark starts only once per process."""
    inherited: Mapping[str, str] = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_it_counts_and_has_our_settings(spark: "SparkSession") -> None:
    assert spark.range(1000).count() == 1000
    assert spark.conf.get("spark.sql.shuffle.partitions") == "4"
    assert spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "65536"
    assert spark.sparkContext.master == "local[2,4]"
    assert spark.sparkContext.uiWebUrl is None


def test_python_workers_run_this_python(spark: "SparkSession") -> None:
    def executables(batches):  # type: ignore[no-untyped-def]
        import sys

        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    rows = spark.range(1, numPartitions=1).mapInArrow(executables, "python string").collect()
    assert {row.python for row in rows} == {sys.executable}


def test_config_is_applied_to_the_active_session(spark: "SparkSession") -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        assert session(**{"spark.sql.shuffle.partitions": 5}) is spark
        assert spark.conf.get("spark.sql.shuffle.partitions") == "5"
        assert spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "65536"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before or "4")


def test_a_name_without_a_dot_is_refused() -> None:
    with pytest.raises(InputError, match=r"takes master, app_name, remote and .*, got cores=3: .*\*\*"):
        session(cores=3)


def test_connect_without_its_packages_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc_status", None)
    with pytest.raises(ExtraMissingError, match=r"needs grpc_status.* pip install 'keyspread\[connect\]'"):
        _check_connect("sc://localhost")


@pytest.mark.slow
@pytest.mark.spark
def test_a_good_start_prints_nothing_and_later_errors_are_shown() -> None:
    done = in_a_new_process(
        """
import time
from keyspread.spark import session

spark = session(master="local[1]")
print(spark.range(10).count())
spark.stop()
spark = session(master="local[2]")  # the same JVM, another master
print(spark.sparkContext.master)
spark.sparkContext._jvm.java.lang.System.err.println("printed by the JVM")
time.sleep(1)
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["10", "local[2]"]
    assert done.stderr == "printed by the JVM\n"


@pytest.mark.spark
def test_a_failed_start_shows_what_the_jvm_said() -> None:
    done = in_a_new_process('from keyspread.spark import session\nsession(**{"spark.driver.memory": "nonsense"})')
    assert done.returncode != 0
    assert "-Xmxnonsense" in done.stderr
    assert done.stderr.index("-Xmxnonsense") < done.stderr.index("Traceback")


@pytest.mark.slow
@pytest.mark.spark
def test_connect_prints_nothing_when_it_starts() -> None:
    pytest.importorskip("grpc_status")
    done = in_a_new_process(
        """
from keyspread.spark import session
spark = session(remote="local[1]", **{"spark.sql.shuffle.partitions": 3})
print(type(spark).__module__, spark.range(10).count(), spark.conf.get("spark.sql.shuffle.partitions"))
assert session() is spark
assert session(**{"spark.sql.shuffle.partitions": 5}) is spark
print(spark.conf.get("spark.sql.shuffle.partitions"))
spark.stop()
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["pyspark.sql.connect.session", "10", "3", "5"]
    assert done.stderr == ""
