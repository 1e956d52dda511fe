"""The Python examples of the pages run as they are written, one after the other.

Only what a reader has anyway (rows, a stream, a function of their own) is added, and addresses become folders here.
"""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from keyspread import Operator
from keyspread.spark import StreamWatch, Totals, aggregate, stream_settings
from keyspread.spark.stream_watch import JsonLines

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ("before", "after")
NEEDS_A_BROKER = "with_kafka()"  # tested with a real one in tests/spark/kafka


class Count(Operator):
    """Counts rows."""

    state = schema = "n long"

    def zero(self):
        return {"n": 0}

    def update(self, state, rows):
        return {"n": state["n"] + len(rows)}

    def merge(self, state, other):
        return {"n": state["n"] + other["n"]}

    def finish(self, state):
        return state


class Model:
    """Predicts 1 for each row."""

    def predict(self, rows):
        return rows["amount"] * 0 + 1


def examples(page):
    """Return the Python examples of a page, each with the line on which it begins."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [(text[: one.start()].count("\n") + 2, one[1]) for one in re.finditer(r"```python\n(.*?)```", text, re.S)]
    return [(line, code) for line, code in found if NEEDS_A_BROKER not in code]


@pytest.fixture
def of_a_reader(spark, tmp_path, monkeypatch):
    """Return what the pages take for granted."""
    settings = {name: spark.conf.get(name, None) for name in stream_settings(16)}
    for name, value in stream_settings(16).items():
        spark.conf.set(name, value)
    rows = spark.range(2_000).selectExpr(
        "if(id % 3 = 0, 'hot', string(id % 50)) AS customer",
        "if(id % 3 = 0, 'hot', string(id % 50)) AS user",
        "double(id) AS amount",
        "repeat('x', int(id % 7)) AS payload",
        "timestamp_seconds(id) AS time",
    )
    rows.repartition(2).write.parquet(str(tmp_path / "clicks"))
    clicks = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "clicks"))
    monkeypatch.chdir(tmp_path)
    names = {"df": rows, "tomorrow": rows, "clicks": clicks, "stream": clicks, "spark": spark, "F": F}
    names |= {"clicks_of_a_day": rows, "customers": rows.selectExpr("customer", "amount * 2 AS credit").limit(100)}
    names |= {"more_of_the_stream": clicks.selectExpr("customer", "amount AS paid")}
    names |= {"MyOperator": Count, "Operator": Operator, "model": Model(), "SparkSession": SparkSession}
    names |= {"Totals": Totals, "StreamWatch": StreamWatch, "JsonLines": JsonLines, "aggregate": aggregate}
    names |= {"work": lambda rows, batch: rows.count(), "session_score": lambda rows: rows}
    yield names
    for query in spark.streams.active:
        query.stop()
    for name, value in settings.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


PAGES = ["README.md", "docs/tutorial.md", "docs/spark.md", "docs/streaming.md", "docs/joins.md", "docs/writes.md"]
PAGES += ["docs/tuning.md", "docs/without-spark.md"]


@pytest.mark.parametrize("page", [PAGES[0], *(pytest.param(page, marks=pytest.mark.slow) for page in PAGES[1:])])
def test_examples_run_as_they_are_written(spark, of_a_reader, tmp_path, page):
    assert examples(page)
    for line, code in examples(page):
        folder = tmp_path / f"line-{line}"
        of_a_reader["CHECKPOINT"] = f"{folder}/checkpoint"
        folder.mkdir()
        code = re.sub(r'"(s3a://bucket/|(?=(scores|results|batches\.jsonl|plan\.json)"))', f'"{folder}/', code)
        exec(compile("\n" * (line - 1) + code, ROOT / page, "exec"), of_a_reader)
        for query in spark.streams.active:
            query.processAllAvailable()
            query.stop()
    if page == "README.md":  # the complete example of the first page: the same result before and after
        before, after = ({row["customer"]: row["score"] for row in of_a_reader[name].collect()} for name in RESULTS)
        assert len(before) > 1
        assert after == pytest.approx(before)
