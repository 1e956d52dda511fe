"""Masters: invalid addresses and clusters without cores are refused in one line."""

import pytest

pytest.importorskip("pyspark")

from keyspread.errors import InputError
from keyspread.spark._launch.master import check_answers, check_master


@pytest.mark.parametrize(
    ("master", "message"),
    [
        ("banana", "unknown master 'banana'; known are local"),
        ("local[0]", "unknown master"),
        ("spark://", "has no host and port: write it as spark://host:7077"),
        ("spark://host:port", "has no host and port"),
        ("spark://127.0.0.1:1,localhost:1", r"no Spark answers at .* \(127.0.0.1:1: .*, localhost:1: .*\): check"),
        ("sc://127.0.0.1:1/;token=x", "no Spark answers"),
        ("yarn", "needs HADOOP_CONF_DIR or YARN_CONF_DIR"),
    ],
)
def test_invalid_masters_are_refused(monkeypatch, master, message):
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    with pytest.raises(InputError, match=message):
        check_master(master)


def test_local_masters_are_accepted():
    for master in ("local", "local[2]", "local[*]", "local[2, 4]", "local[*,4]"):
        check_master(master)


def test_a_cluster_must_give_cores_in_time(spark):
    check_answers(spark, "here")

    class Slow:
        def range(self, *_, **__):
            import time

            time.sleep(5)

    with pytest.raises(InputError, match=r"spark://there gave no cores within 0.1 seconds"):
        check_answers(Slow(), "spark://there", seconds=0.1)
