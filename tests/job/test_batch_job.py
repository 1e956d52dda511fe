"""The batch job: every source and scheme gives the plain result, and the reported loads are the real ones."""

import csv
import gzip
import json
from collections import Counter
from itertools import pairwise

import pytest

pytest.importorskip("pyspark")

import numpy as np
from keyspread.job.sinks import Target, check_columns, find_target, save, write, write_text
from pyspark.sql import functions as F

import keyspread as ks
from keyspread.errors import InputError
from keyspread.job.batch_job import result_schema, run_job
from keyspread.job.sources import file_source, find_files, zipf_source
from keyspread.spark import plan
from keyspread.spark.failures import SparkError, in_one_line
from keyspread.streams import ZipfRanks, zipf, zipf_probabilities

LAW = {"skew": 1.4, "keys": 300, "messages": 20_000, "seed": 5}
WORKERS, SENDERS = 8, 3


@pytest.fixture(scope="module")
def ranks():
    return ZipfRanks(LAW["skew"], LAW["keys"], LAW["seed"]).draw(0, LAW["messages"])


@pytest.fixture(scope="module")
def source(spark):
    return zipf_source(spark, **LAW, partitions=SENDERS)


def parts(array):
    """Return the rows of each sender: Spark splits a range evenly."""
    cuts = [len(array) * sender // SENDERS for sender in range(SENDERS + 1)]
    return [array[begin:end] for begin, end in pairwise(cuts)]


def naive(hashes, route):
    """Count loads and replicas row by row."""
    workers = np.concatenate([route(sender, part) for sender, part in enumerate(parts(hashes))])
    return np.bincount(workers, minlength=WORKERS).tolist(), set(zip(hashes.tolist(), workers.tolist(), strict=True))


@pytest.mark.parametrize("partitions", [1, 4, None])
def test_the_zipf_source_is_the_stream_of_the_simulator(spark, partitions):
    rows = zipf_source(spark, **LAW, partitions=partitions).rows
    found = rows.orderBy("id").select(F.xxhash64("key").alias("hash")).toArrow()["hash"].to_numpy()
    assert np.array_equal(found, zipf(**LAW))


def test_the_zipf_source_follows_the_law_and_its_seed(spark, ranks):
    first = zipf_probabilities(LAW["skew"], LAW["keys"])[0]
    rows = zipf_source(spark, **LAW)
    hottest = rows.rows.where("key = 1").count() / LAW["messages"]
    assert hottest == np.mean(ranks == 1)
    assert hottest == pytest.approx(first, abs=5 * (first / LAW["messages"]) ** 0.5)
    other = zipf_source(spark, **{**LAW, "seed": 6}).rows.where("key = 1").count() / LAW["messages"]
    assert other != hottest


def test_a_part_of_the_zipf_source_has_the_same_keys(spark, ranks):
    found = zipf_source(spark, **LAW, partitions=2).rows.where("id % 7 = 3 AND id > 50").collect()
    assert [row.key for row in sorted(found)] == [int(ranks[row.id]) for row in sorted(found)]


@pytest.mark.parametrize("scheme", ["d-choices", "planned"])
def test_counts_loads_and_replicas_are_those_of_plain_python(source, ranks, scheme):
    steps = []
    result = run_job(source, WORKERS, scheme, top=5, seed=2, progress=steps.append)
    counts = Counter(ranks.tolist())
    assert {row["key"]: row["count"] for row in result.merged.collect()} == counts
    assert (result.rows, result.keys) == (LAW["messages"], len(counts))
    hot = {key for key, rows in counts.items() if rows >= LAW["messages"] / (5 * WORKERS)}
    assert result.hot_keys == len(hot)
    assert steps == ["counting keys"] * (scheme == "planned") + ["routing and merging", "comparing schemes"]
    assert list(result.seconds) == steps

    hashes = ks.hash_keys(ranks.astype(np.int64))
    ways = {
        name: lambda sender, part, name=name: ks.Sender(name, WORKERS, source=sender, seed=2).route(part)
        for name in {scheme, "key", "partial-key"} - {"planned"}
    }
    if scheme == "planned":
        ways["planned"] = lambda sender, part: result.plan.route(part, start=sender << 33)
    assert result.outcomes[0].scheme == scheme
    assert {one.scheme for one in result.outcomes} == set(ways)
    for one in result.outcomes:
        loads, pairs = naive(hashes, ways[one.scheme])
        assert one.loads.tolist() == loads
        assert one.replicas == len(pairs)
        assert one.head_loads.sum() == sum(counts[key] for key in hot)
    _, pairs = naive(hashes, ways[scheme])
    assert [(hot.rows, hot.workers) for hot in result.hottest] == [
        (counts[hot.key["key"]], len({w for h, w in pairs if h == ks.hash_keys([hot.key["key"]])[0]}))
        for hot in result.hottest
    ]
    assert [hot.rows for hot in result.hottest] == [rows for _, rows in counts.most_common(5)]
    json.dumps(result.to_dict())
    result.release()


def test_a_plan_is_used_by_later_runs(source):
    first = plan(source.rows, "key", WORKERS)
    again = run_job(source, WORKERS, plan=first, top=0)
    assert again.outcomes[0].busiest < 1.01
    assert again.hottest == ()
    assert "counting keys" not in again.seconds
    closer = run_job(source, WORKERS - 1, previous=first)
    assert 0 < closer.plan.moved < 0.5
    assert closer.outcomes[0].busiest < 1.05 < closer.outcomes[1].busiest


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"scheme": "magic"}, "unknown scheme 'magic'"),
        ({"top": -1}, "top must be at least 0, got -1"),
        ({"tolerance": 0.1}, "'tolerance' is for schemes such as d-choices; planned takes threshold, sample"),
        ({"scheme": "pkg", "sample": 0.1}, "'sample' is for scheme planned only, got scheme partial-key"),
        ({"scheme": "dc", "plan": ks.plan(np.arange(9), 3)}, "'plan' is for scheme planned only"),
        ({"plan": ks.plan(np.arange(9), 3)}, "the plan is for 3 workers, got 2 workers: make a new plan, or use 3"),
        ({"plan": ks.plan(np.arange(9), 2), "sample": 0.5}, "a plan is given, so 'sample' has no effect"),
        ({"threshold": 2}, "threshold is a share"),
        ({"aggregates": {"KEY": "count(*)"}}, "the result would have two columns 'KEY'"),
        ({"aggregates": {"a": "count(*)", "A": "count(*)"}}, "the result would have two columns 'A'"),
    ],
)
def test_options_that_conflict_are_refused(source, given, message):
    with pytest.raises(InputError, match=message):
        run_job(source, **{"workers": 2, **given})


ROWS = [("007", 3), ("8", 5), ("007", 4), (None, 1), ("a,b", 2), ("007", -1)]
PLAIN = {"007": (3, 6), "8": (1, 5), None: (1, 1), "a,b": (1, 2)}


@pytest.fixture
def written(tmp_path):
    """Write the same rows in several formats, with a malformed line where the format allows one."""
    quoted = {None: "", "a,b": '"a,b"'}
    lines = [f"{quoted.get(user, user)},{amount}" for user, amount in ROWS]
    (tmp_path / "rows.csv").write_text("\n".join(["user,amount", *lines, "1,2,3"]) + "\n")
    lines = [json.dumps({"user": user, "amount": amount}) for user, amount in ROWS]
    (tmp_path / "rows.jsonl").write_text("\n".join([*lines, '{"user": ']) + "\n")
    folder = tmp_path / "rows.csvs"
    folder.mkdir()
    for number, row in enumerate(ROWS):
        (folder / f"{number}.csv").write_text(f"user,amount\n{quoted.get(row[0], row[0])},{row[1]}\n")
    (folder / "_SUCCESS").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "malformed"),
    [("rows.csv", 1), ("rows.jsonl", 1), ("rows.csvs", 0), ("rows.csvs/[0-9].csv", 0), ("rows.parquet", 0)],
)
def test_files_of_every_format(spark, written, name, malformed):
    if name == "rows.parquet":
        spark.createDataFrame(ROWS, "user string, amount int").write.parquet(str(written / name))
    source = file_source(spark, find_files(str(written / name)), ["user"])
    rows = source.rows.groupBy("user").agg(F.count("*").alias("n"), F.sum("amount").alias("total")).collect()
    assert {row["user"]: (row["n"], row["total"]) for row in rows} == PLAIN
    assert source.malformed().count == malformed


@pytest.mark.parametrize("columns", [{}, {"total": "sum(amount)"}])
def test_malformed_lines_are_counted_whatever_columns_are_read(spark, written, columns):
    files = find_files(str(written / "rows.csv"))
    with pytest.raises(InputError, match="1 malformed line, such as '1,2,3'"):
        run_job(file_source(spark, files, ["user"]), 3, strict=True, aggregates=columns)


def test_several_columns_and_fields_are_a_key(spark, tmp_path):
    path = tmp_path / "nested.json"
    path.write_text('{"a": {"b": 1}, "c": "x"}\n{"a": {"b": 1}, "c": "x"}\n{"a": {"b": 2}, "c": "x"}\n')
    result = run_job(file_source(spark, find_files(str(path)), ["a.b", "c"]), 2)
    assert {(row["b"], row["c"]): row["count"] for row in result.merged.collect()} == {(1, "x"): 2, (2, "x"): 1}
    assert result.hottest[0].key == {"b": 1, "c": "x"}


def test_time_and_key_files_are_read_as_the_simulator_reads_them(spark, tmp_path, ranks):
    path = tmp_path / "a.tsv.gz"
    lines = [f"{time}\tk{rank}" for time, rank in enumerate(ranks[:5000])]
    path.write_bytes(gzip.compress("\n".join([*lines, "", "no tab", "x\ty", "1\ttwo\ttabs", "+1.5e3\t"]).encode()))
    source = file_source(spark, find_files(str(path)), partitions=4)
    result = run_job(source, WORKERS, "pkg", seed=3, aggregates={"last": "max(time)"})
    stream = ks.streams.read_stream(path)
    assert result.rows == len(stream.hashes) == 5001
    assert result.malformed.count == stream.malformed.count == 3
    assert str(result.malformed) == "3 malformed lines, such as '1\\ttwo\\ttabs'"
    assert [one.scheme for one in result.outcomes] == ["partial-key", "key"]
    simulated = ks.simulate(stream.hashes, "pkg", WORKERS, sources=4, seed=3)
    assert result.outcomes[0].loads.tolist() == simulated.loads.tolist()
    assert result.outcomes[0].replicas == simulated.replicas
    assert {row["key"]: row["last"] for row in result.merged.collect()}[""] == 1500


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", "", "no rows, the file is empty"),
        ("header.csv", "a,b\n", "header.csv: no rows$"),
        ("bad.tsv", "no tab\n", "bad.tsv: no rows but 1 malformed line, such as 'no tab'"),
        ("text.json", "hello\n", "no line is a JSON object: write one object per line"),
        ("short.parquet", "hello", "short.parquet: cannot be read"),
        ("cut.tsv.gz", gzip.compress(b"1\ta\n" * 10_000, mtime=0)[:60], "cut.tsv.gz: cannot be read .*Unexpected end"),
        ("packed.tsv", gzip.compress(b"1\ta\n", mtime=0), "is gzip, which Spark recognises only by the ending .gz"),
        ("what", "1\ta\n", "the ending is not that of a format: name the format, one of csv, json, parquet, tsv"),
        ("no.csv", "x,y\n1,2\n", "there is no column 'a'; the columns are x, y"),
    ],
)
def test_bad_files_are_refused(spark, tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message), in_one_line():
        run_job(file_source(spark, find_files(str(path)), () if "tsv" in name else ["a"]), 2)


def test_missing_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file or folder"):
        find_files(str(tmp_path / "a.csv"))
    with pytest.raises(InputError, match="no file matches this pattern"):
        find_files(str(tmp_path / "*.csv"))
    with pytest.raises(InputError, match="no file in this folder"):
        find_files(str(tmp_path))
    for name in ("a.csv", "b.json"):
        (tmp_path / name).write_text("x")
    with pytest.raises(InputError, match="have different endings: name the format"):
        find_files(str(tmp_path))
    assert find_files(str(tmp_path), "CSV").format == "csv"
    with pytest.raises(InputError, match="unknown format 'xml'; known are csv, json, parquet, tsv"):
        find_files(str(tmp_path), "xml")
    assert find_files("s3a://bucket/rows.csv.gz").format == "csv"


def test_a_file_of_any_name_is_read(spark, tmp_path):
    path = tmp_path / "odd [1] {a}*?.tsv"
    path.write_text("1\ta\n")
    assert file_source(spark, find_files(str(path))).rows.collect() == [(1.0, "a")]


def test_quotes_of_csv_are_doubled_in_files_that_are_read_and_written(spark, tmp_path):
    keys = ['Müller, "A"', '"', '""', 'a"b', "\\", 'back\\"slash', "plain"]
    with (tmp_path / "names.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["key", "amount"], *([key, 1] for key in keys)])
    source = file_source(spark, find_files(str(tmp_path / "names.csv")), ["key"])
    assert sorted(row["key"] for row in source.rows.collect()) == sorted(keys)
    save(source.rows.coalesce(1), str(tmp_path / "out"), "csv", "overwrite")
    (written,) = (tmp_path / "out").glob("*.csv")
    with written.open(newline="") as file:
        assert sorted(row[0] for row in list(csv.reader(file))[1:]) == sorted(keys)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_results_are_written_whole_or_not_at_all(spark, tmp_path, format):
    good = spark.range(3).selectExpr("id", "'x y' AS text")
    bad = good.withColumn("text", F.raise_error(F.lit("on purpose")).cast("string"))
    path = tmp_path / f"out.{format}"
    target = find_target(str(path))
    assert target.format == format
    with pytest.raises(SparkError, match="on purpose"), in_one_line():
        write(bad, target)
    assert list(tmp_path.iterdir()) == []
    write(good, target)
    read = spark.read.option("header", True).format(format).load(str(path)).collect()
    assert sorted((int(row.id), row.text) for row in read) == [(0, "x y"), (1, "x y"), (2, "x y")]

    with pytest.raises(InputError, match="exists already: choose another name, or use --overwrite"):
        find_target(str(path))
    again = find_target(str(path), overwrite=True)
    with pytest.raises(SparkError), in_one_line():
        write(bad, again)
    assert spark.read.option("header", True).format(format).load(str(path)).count() == 3
    write(good.limit(1), again)
    assert spark.read.option("header", True).format(format).load(str(path)).count() == 1
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_invalid_targets_are_refused(spark, tmp_path, source):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").touch()
    for name, message in [
        ("no/folder", "there is no folder .*, create it first"),
        ("file", "is a file, but results are a folder"),
        ("folder", "holds 'thesis.txt', which Spark did not write"),
    ]:
        with pytest.raises(InputError, match=message):
            find_target(str(tmp_path / name), overwrite=True)
    with pytest.raises(InputError, match="written as csv or parquet, got format 'xml'"):
        find_target(str(tmp_path / "new"), "xml")
    schema = result_schema(source, {"ids": "collect_list(id)"})
    with pytest.raises(InputError, match="CSV cannot hold column 'ids' of type array<bigint>: write Parquet"):
        check_columns(schema, Target("x", "csv", False, True))
    check_columns(schema, Target("x", "parquet", False, True))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["file", "folder"]


def test_text_is_written_completely_or_not_at_all(tmp_path):
    write_text("new", str(tmp_path / "a"))
    write_text("newer", str(tmp_path / "a"))
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a", "newer")]
    with pytest.raises(InputError, match="cannot be written"):
        write_text("new", str(tmp_path / "no" / "a"))
