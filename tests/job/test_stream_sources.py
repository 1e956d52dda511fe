"""Streaming sources: the same rows as the batch sources, batch by batch."""

import json
from collections import Counter

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq
from keyspread.job.stream_sources import endless_source

from keyspread.errors import InputError
from keyspread.job.sources import file_source, find_files
from keyspread.streams import ZipfStream

ROWS = [("007", 3), ("a,b", 5), ("007", 4), ("é", -1)]


def write(folder, format, rows):
    """Write one file, with a malformed line where the format allows one; return the number of malformed lines."""
    name = folder / f"{len(list(folder.iterdir()))}.{format}"
    if format == "parquet":
        pq.write_table(pa.table({"key": [key for key, _ in rows], "amount": [amount for _, amount in rows]}), name)
        return 0
    lines = {
        "csv": ["key,amount", *(f'"{key}",{amount}' for key, amount in rows), "1,2,3"],
        "json": [*(json.dumps({"key": key, "amount": amount}) for key, amount in rows), '{"key": '],
        "tsv": [*(f"{amount}\t{key}" for key, amount in rows), "no tab"],
    }
    name.write_text("\n".join(lines[format]) + "\n")
    return 1


def read_all(source, checkpoint):
    """Run a query over all existing files; return its rows and its count of malformed lines."""
    rows = []
    query = (
        source.rows.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    counted = [one.observedMetrics.get(source.observed) for one in query.recentProgress if source.observed]
    return Counter(rows), sum(one["malformed"] for one in counted if one is not None)


@pytest.mark.parametrize("format", ["csv", "json", "parquet", "tsv"])
def test_a_folder_is_read_as_by_the_batch_source_and_then_only_new_files(spark, tmp_path, format):
    folder = tmp_path / "in"
    folder.mkdir()
    malformed = write(folder, format, ROWS)
    key = ["key"]
    stream = file_source(spark, find_files(str(folder)), key, streaming=True)
    assert stream.rows.isStreaming
    bounded = file_source(spark, find_files(str(folder)), key)
    assert (stream.rows.schema, stream.key) == (bounded.rows.schema, bounded.key)
    assert read_all(stream, tmp_path / "checkpoint") == (Counter(bounded.rows.collect()), malformed)
    write(folder, format, [("new", 1)])
    found, counted = read_all(file_source(spark, find_files(str(folder)), key, streaming=True), tmp_path / "checkpoint")
    assert ([row["key"] for row in found], counted) == (["new"], malformed)


def test_partitions_of_an_endless_source(spark):
    stream = ZipfStream(1.4, 100, 0)
    with pytest.raises(InputError, match="rows_per_batch must be at least 1, got 0"):
        endless_source(spark, stream, 0)
    with pytest.raises(InputError, match="partitions must be at least 1, got 0"):
        endless_source(spark, stream, 5, partitions=0)
    source = endless_source(spark, stream, 5)
    assert source.rows.columns == ["id", "key"]
    assert "messages" not in source.facts
