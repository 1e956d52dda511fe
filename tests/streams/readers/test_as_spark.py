"""Keys have the hash that Spark's `xxhash64` gives them when Spark reads the same file."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keyspread.hashing import NULL_HASH, hash_keys
from keyspread.streams import read_stream

TEXTS = ['Müller, "A"', "a b", "007", "two\nlines", "日本", "x'y", '"', "7"]
NUMBERS = [0, -1, 2**53 + 1, 2**62, -(2**63), 7]


@pytest.fixture
def read(spark, tmp_path):
    """Return a function that reads a file: the sorted hashes by Spark and by `read_stream`."""

    def read(name, format, **options):
        rows = spark.read.options(**options).format(format).load(str(tmp_path / name))
        hashes = sorted(row[0] for row in rows.selectExpr("xxhash64(key)").collect())
        return hashes, sorted(read_stream(tmp_path / name, key="key").hashes.tolist())

    return read


def test_csv(read, tmp_path):
    with open(tmp_path / "a.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["time", "key"], *([place, text] for place, text in enumerate(TEXTS))])
    by_spark, by_us = read("a.csv", "csv", header=True, escape='"', multiLine=True)
    assert by_us == by_spark == sorted(hash_keys(TEXTS).tolist())


def test_json_and_parquet(read, tmp_path):
    for place, keys in enumerate(([*TEXTS, "", None], [*NUMBERS, None], [0.5, -0.0, None, 1e300])):
        lines = [json.dumps({"key": key}) for key in keys]
        (tmp_path / f"{place}.json").write_text("\n".join(lines), encoding="utf-8")
        pq.write_table(pa.table({"key": keys}), tmp_path / f"{place}.parquet")
        for name, format in ((f"{place}.json", "json"), (f"{place}.parquet", "parquet")):
            by_spark, by_us = read(name, format)
            assert by_us == by_spark == sorted(hash_keys(keys).tolist())
            assert by_us.count(NULL_HASH) == 1  # null, but not the empty text
