"""The example of docs/live-page.md runs as it is written."""

import re
from pathlib import Path
from urllib.request import urlopen

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

PAGE = Path(__file__).parents[2] / "docs" / "live-page.md"


def test_the_example_runs_as_it_is_written(spark, tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    spark.range(1000).selectExpr("if(id % 3 = 0, 'hot', string(id)) AS user").write.parquet(f"{tmp_path}/clicks")
    names = {"stream": spark.readStream.schema("user string").parquet(f"{tmp_path}/clicks")}
    exec(code, names)
    names["query"].processAllAvailable()
    names["query"].stop()
    assert names["watch"].wait(names["query"])
    with urlopen(names["page"].url) as answer:
        page = answer.read().decode()
    names["watch"].close()
    assert "clicks by user" in page
    assert '"rows":1000' in page
