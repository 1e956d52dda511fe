"""Sources: Spark's own readers, on bounded data and on a stream, and what is checked before Spark starts."""

import csv
import json
from collections import Counter

import pytest

pytest.importorskip("pyspark")

from keyspread.errors import InputError
from keyspread.run.sources import file_source, find_files, format_of, writer

ROWS = [("007", 3), ("8", 5), ("007", 4), (None, 1), ("a,b", 2)]


def write(spark, folder, format):
    """Write the rows as one file or folder; return its path."""
    path = folder / f"odd [1] {{a}}*?.{format}"
    if format == "parquet":
        spark.createDataFrame(ROWS, "user string, amount int").coalesce(1).write.parquet(f"{folder}/in")
        (folder / "in").rename(path)
    elif format == "json":
        path.write_text("".join(json.dumps({"user": user, "amount": amount}) + "\n" for user, amount in ROWS))
    else:
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([["user", "amount"], *ROWS])
    return str(path)


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_files_of_any_format_and_name_are_read(spark, tmp_path, format):
    source = file_source(spark, find_files(write(spark, tmp_path, format)), ["user"])
    counts = Counter(row["user"] for row in source.rows.collect())
    assert counts == {"007": 2, "8": 1, None: 1, "a,b": 1}
    assert (source.key, source.facts["file_format"]) == (("user",), format)


def test_lines_of_time_and_key(spark, tmp_path):
    (tmp_path / "a.tsv").write_text('1\ta b\n2.5\t"q\n')
    source = file_source(spark, find_files(str(tmp_path / "a.tsv")))
    assert [tuple(row) for row in source.rows.collect()] == [(1.0, "a b"), (2.5, '"q')]
    assert source.key == ("key",)


def test_a_table_and_a_pattern(spark, tmp_path):
    spark.range(5).createOrReplaceTempView("numbers_of_a_test")
    source = file_source(spark, find_files("numbers_of_a_test"), ["id"])
    assert (source.rows.count(), source.title) == (5, "numbers_of_a_test")
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text(f"user\n{number}\n")
    rows = file_source(spark, find_files(f"{tmp_path}/[0-1].csv"), ["user"]).rows
    assert sorted(row["user"] for row in rows.collect()) == ["0", "1"]


def test_options_go_to_sparks_reader(spark, tmp_path):
    (tmp_path / "a.csv").write_text("x;1\ny;2\n")
    options = {"header": "false", "sep": ";", "schema": "user STRING, amount INT"}
    rows = file_source(spark, find_files(str(tmp_path / "a.csv"), None, options), ["user"]).rows
    assert [tuple(row) for row in rows.collect()] == [("x", 1), ("y", 2)]


def test_a_stream_reads_the_files_that_exist_and_then_only_new_ones(spark, tmp_path):
    (tmp_path / "in").mkdir()

    def read():
        rows = []
        source = file_source(spark, find_files(str(tmp_path / "in")), ["user"], streaming=True)
        query = source.rows.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        query = query.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        return [row["user"] for row in rows]

    for name in ("a", "b"):
        (tmp_path / "in" / f"{name}.csv").write_text(f"user\n{name}\n")
        assert read() == [name]


def test_what_is_written_is_read_as_it_was(spark, tmp_path):
    keys = ['Müller, "A"', '"', 'a"b', "\\", 'back\\"slash', "plain"]
    rows = spark.createDataFrame([(key, 1) for key in keys], "key string, count long").coalesce(1)
    for ending in ("csv", "json", "folder"):
        writer(rows, f"{tmp_path}/out.{ending}").save(f"{tmp_path}/out.{ending}")
        format = None if ending != "folder" else "parquet"
        found = file_source(spark, find_files(f"{tmp_path}/out.{ending}", format), ["key"]).rows.collect()
        assert sorted(row["key"] for row in found) == sorted(keys)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("what", "1\ta\n", "the ending is not that of a format: name the format of Spark's reader, such as csv"),
        ("no.csv", "x,y\n1,2\n", "there is no column 'a'; the columns are x, y"),
        ("empty.csv", "", "no rows and no header"),
    ],
)
def test_bad_files_are_refused(spark, tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        file_source(spark, find_files(str(tmp_path / name)), ["a"])


def test_inputs_that_are_not_there_are_refused_without_spark(tmp_path):
    for path, message in [("a.csv", "no such file or folder"), ("*.csv", "no file matches this pattern")]:
        with pytest.raises(InputError, match=message):
            find_files(str(tmp_path / path))
    for name in ("a.csv", "b.json"):
        (tmp_path / name).write_text("x")
    with pytest.raises(InputError, match="the files have different endings: name the format"):
        find_files(str(tmp_path))
    assert find_files(str(tmp_path), "CSV").format == "csv"
    with pytest.raises(InputError, match=r"a Kafka topic needs its brokers: --option kafka.bootstrap.servers="):
        find_files("clicks", "kafka")
    with pytest.raises(InputError, match="no Kafka broker answers"):
        find_files("clicks", "kafka", {"kafka.bootstrap.servers": "127.0.0.1:1"})
    assert [format_of(name) for name in ("a.CSV.gz", "a.jsonl", "b/", "c.d")] == ["csv", "json", None, None]
