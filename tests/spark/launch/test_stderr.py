"""What the JVM writes while it starts: a package that cannot be downloaded is named, and its report is not shown."""

import os

import pytest

pytest.importorskip("pyspark")

from keyspread.errors import InputError
from keyspread.spark._launch.master import StartupErrors
from keyspread.spark.session import _packages_found

IVY = b"""\t\tWARNINGS
\t\t::::::::::::::::::::::::::::::::::::::::::::::
\t\t:: org.apache.spark#spark-sql-kafka-0-10_2.13;4.3.0: not found
RuntimeException: [unresolved dependency: org.apache.spark#spark-sql-kafka-0-10_2.13;4.3.0: not found]
"""


def fail_to_start(written):
    with _packages_found(StartupErrors()) as errors:
        os.write(errors.descriptor, written)
        raise RuntimeError("Java gateway process exited before sending its port number")


def test_a_package_that_is_not_found_is_one_line(capfd):
    with pytest.raises(InputError) as caught:
        fail_to_start(IVY)
    assert str(caught.value).startswith(
        "Spark cannot download org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0 (spark.jars.packages): "
    )
    assert "\n" not in str(caught.value)
    assert '"spark.jars": "a.jar,b.jar"' in str(caught.value)
    assert capfd.readouterr().err == ""


def test_any_other_failure_is_shown_whole(capfd):
    with pytest.raises(RuntimeError, match="gateway"):
        fail_to_start(b"Could not reserve enough space\n")
    assert capfd.readouterr().err == "Could not reserve enough space\n"
