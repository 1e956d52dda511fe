"""`Totals`: every batch counts once, on every file system that Spark knows, and nothing is ever left out silently."""

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark import StorageLevel, cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from keyspread import InputError
from keyspread.operators import ColumnOperator, Operator
from keyspread.spark import Totals

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Reach(Operator):
    """Count and sum, from pandas."""

    schema = "n bigint, total bigint"

    def zero(self):
        return (0, 0)

    def update(self, state, rows):
        return state[0] + len(rows), state[1] + int(rows["v"].sum())

    def merge(self, state, other):
        return state[0] + other[0], state[1] + other[1]

    def finish(self, state):
        return {"n": state[0], "total": state[1]}


class Count(ColumnOperator):
    """The same by column."""

    state = schema = "n bigint, total bigint"

    def __init__(self, fails=False):
        self.fails = fails

    def partial(self, rows, key):
        assert not self.fails, "a worker has failed"
        return rows.group_by(key).aggregate([([], "count_all"), ("v", "sum")]).rename_columns([*key, "n", "total"])

    def merge(self, states, key):
        return states.group_by(key).aggregate([("n", "sum"), ("total", "sum")]).rename_columns([*key, "n", "total"])


COUNT = Count()


def batch_of(spark, number, rows=30):
    """Return a batch with a hot key and a null key."""
    dice = random.Random(number)
    drawn = [(dice.choice(["hot", "hot", None, "a", "b"]), dice.randrange(100)) for _ in range(rows)]
    return spark.createDataFrame(drawn, "k string, v bigint")


def plain(batches):
    """Return the answer of plain Python."""
    found = {}
    for batch in batches:
        for key, value in batch.collect():
            n, total = found.get(key, (0, 0))
            found[key] = (n + 1, total + value)
    return found


def found(totals, spark):
    return {row.k: (row.n, row.total) for row in totals.read(spark).collect()}


def files(folder, pattern):
    return sorted(path for path in Path(folder).glob(pattern) if not path.name.startswith((".", "_")))


@pytest.mark.connect
@pytest.mark.parametrize("column", ["id AS variant", "array(map(id, id)) AS ms"])
def test_other_rows_are_no_retry_whatever_their_columns(spark, tmp_path, column):
    totals = Totals(tmp_path / "t", "k", COUNT, 2)
    first, other = (spark.range(begin, begin + 3).selectExpr("'a' AS k", "1L AS v", column) for begin in (0, 10))
    totals(first, 0)
    totals(first, 0)
    with pytest.raises(InputError, match="/t: batch 0 was added before with other rows"):
        totals(other, 0)
    assert [row["n"] for row in totals.read(spark).collect()] == [3]


def test_batches_retries_and_merges(spark, static, tmp_path):
    """No `_SUCCESS` files; merges after every second batch; batches are retried."""
    totals = Totals(tmp_path / "t", "k", COUNT, 2, merge_every=2)
    with pytest.raises(InputError, match=r"/t: there are no totals \(yet\)"):
        totals.read(spark)
    batches = {number: batch_of(spark, number) for number in range(4)}
    unmarked = "mapreduce.fileoutputcommitter.marksuccessfuljobs", "false"
    spark.conf.set(*unmarked)
    try:
        for number, rows in batches.items():
            totals(rows, number)
            if number in (1, 3):
                totals(rows, number)
                Totals(str(tmp_path / "t"), "k", COUNT, 3, "key")(rows, number)  # another driver, with other workers
    finally:
        spark.conf.unset(unmarked[0])
    for number, rows in ((0, batches[0]), (3, batches[0]), (2, batches[0])):  # as after a start with a new checkpoint
        with pytest.raises(InputError, match=f"/t: batch {number} was added before with other rows, or batches after"):
            totals(rows, number)
    assert not list(tmp_path.rglob("_SUCCESS"))
    assert found(totals, spark) == plain(batches.values())
    assert len(files(tmp_path / "t", "slot-*/parts-*")) == 4  # the last merge, the one before, and its batches
    slots = [path.parent.parent.name for path in files(tmp_path / "t", "slot-*/commits/*")]
    assert slots == ["slot-1", "slot-1", "slot-1", "slot-2"]


def test_through_foreach_batch_and_a_new_checkpoint_is_refused(spark, static, tmp_path):
    def totals():
        return Totals(str(tmp_path / "t"), F.col("k"), COUNT, 2, merge_every=2)

    for number in range(4):
        batch_of(spark, number).coalesce(1).write.parquet(str(tmp_path / "in" / f"{number}"))
    stream = spark.readStream.schema("k string, v bigint").option("maxFilesPerTrigger", 1).parquet(f"{tmp_path}/in/*")

    def run(checkpoint):
        query = stream.writeStream.foreachBatch(totals()).option("checkpointLocation", str(tmp_path / checkpoint))
        query = query.trigger(availableNow=True).start()
        query.awaitTermination(120)
        if query.exception():
            raise query.exception()

    run("first")
    # The folder is gone, or the address has a typo: the next batch must not be taken for the first one.
    batch_of(spark, 4).coalesce(1).write.parquet(str(tmp_path / "in" / "4"))
    (tmp_path / "t").rename(tmp_path / "elsewhere")
    with pytest.raises(StreamingQueryException, match=r"/t: batch 4 would be the first one here, so rows would"):
        run("first")
    assert not (tmp_path / "t").exists()
    (tmp_path / "elsewhere").rename(tmp_path / "t")
    run("first")
    bounded = spark.read.parquet(f"{tmp_path}/in/*")
    assert found(totals(), spark) == plain([bounded])
    # Its first batch has the number of a batch that is committed, and must not be taken for a retry.
    with pytest.raises(StreamingQueryException, match=r"belongs to another query \(query was '.*' and is now '.*'\)"):
        run("second")
    with pytest.raises(InputError, match=r"query was '.*' and is now None"):
        totals()(bounded, 0)


@pytest.mark.connect
@pytest.mark.parametrize(
    "address",
    ["file:{}/x", "file://{}/a b/", "{}/100%/%20/ünï/a=1/b=c", "{}/[a]*?{{b,c}}", "{}/.a/_b"],
)
def test_addresses(spark, static, tmp_path, address):
    totals, batches = Totals(address.format(tmp_path), "k", COUNT, 2), [batch_of(spark, number, 5) for number in (0, 1)]
    for number, rows in enumerate(batches):
        totals(rows, number)
    assert found(Totals(address.format(tmp_path), "k", COUNT, 2), spark) == plain(batches)
    folder = tmp_path / address.format("").rpartition(":")[2].lstrip("/")
    assert len(files(folder, "slot-0/commits/*")) == 2


@pytest.mark.connect
def test_what_cannot_be_interpreted_is_refused(spark, static, tmp_path):
    rows = batch_of(spark, 0)

    def refuses(folder, message):
        for action in (lambda t: t.read(spark), lambda t: t(rows, 7)):
            with pytest.raises(InputError, match=message) as caught:
                action(Totals(folder, "k", COUNT, 2))
            assert "\n" not in str(caught.value)

    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "photo.jpg").write_bytes(b"")
    refuses(tmp_path / "foreign", "there are no commits, but there is file:.*/photo.jpg")
    refuses(tmp_path / "foreign" / "photo.jpg", "there are no commits, but there is file:.*/photo.jpg")

    folder = tmp_path / "t"
    for number in (0, 1):
        Totals(folder, "k", COUNT, 2)(batch_of(spark, number), number)
    commits = files(folder, "slot-0/commits/*")
    first, second = (path.read_bytes() for path in commits)
    for content, message in (
        (b"", "a commit is an empty file"),
        (second[:50], "a commit is damaged"),
        (second.replace(b'"format":1', b'"format":3'), "they have format 3, and this version of keyspread reads"),
        (second.replace(b'"Count"', b'"Other"'), "two queries have written here"),
    ):
        write(commits[1], content)
        refuses(folder, message)
    write(commits[1], second)
    write(commits[0], first)
    assert found(Totals(folder, "k", COUNT, 2), spark) == plain([batch_of(spark, number) for number in (0, 1)])
    with pytest.raises(InputError, match=r"aggregates was .*'Count'.* and is now .*'Reach'"):
        Totals(folder, "k", Reach(), 2).read(spark)
    part = max(files(folder, "slot-0/parts-*/*.parquet"), key=lambda path: path.stat().st_size)  # some are empty
    content = part.read_bytes()
    remove(part)
    with pytest.raises(InputError, match=r"\d of \d+ partial states are there: restore the folder"):
        Totals(folder, "k", COUNT, 2).read(spark)
    write(part, content[:-20])
    with pytest.raises(InputError, match="these totals cannot be read: "):
        Totals(folder, "k", COUNT, 2).read(spark)


def write(path, content):
    """Replace a file that Spark wrote, with its checksum."""
    remove(path)
    path.write_bytes(content)


def remove(path):
    path.unlink(missing_ok=True)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@pytest.mark.connect
def test_a_folder_that_nobody_committed_does_not_count(spark, static, tmp_path):
    totals = Totals(tmp_path, "k", COUNT, 2)
    totals(batch_of(spark, 0), 0)
    commits = files(tmp_path, "slot-0/commits/*")
    remove(commits[0])  # as if the driver had been killed after the parts were written
    with pytest.raises(InputError, match=r"there are no totals \(yet\)"):
        Totals(tmp_path, "k", COUNT, 2).read(spark)
    Totals(tmp_path, "k", COUNT, 2)(batch_of(spark, 0), 0)
    assert found(totals, spark) == plain([batch_of(spark, 0)])


@pytest.mark.connect
def test_missing_commits_are_not_taken_for_an_empty_folder(spark, static, tmp_path):
    """Otherwise the next batch would be the only one that counts."""
    totals = Totals(tmp_path, "k", COUNT, 2)
    for number in range(2):
        totals(batch_of(spark, number), number)
    shutil.rmtree(tmp_path / "slot-0" / "commits")
    wanted = "the commits are missing, but there are partial states of 2 batches"
    with pytest.raises(InputError, match=wanted):
        totals.read(spark)
    with pytest.raises(InputError, match=wanted):
        Totals(tmp_path, "k", COUNT, 2)(batch_of(spark, 2), 2)


def test_an_empty_batch_and_a_key_that_becomes_nullable(spark, static, tmp_path):
    totals = Totals(tmp_path, "k", COUNT, 2, merge_every=2)
    rows = spark.range(10).selectExpr("CAST(id % 3 AS string) AS k", "id AS v")
    for number, batch in enumerate([rows.limit(0), rows, rows.selectExpr("nullif(k, 'x') AS k", "v"), rows.limit(0)]):
        totals(batch, number)
    assert found(totals, spark) == plain([rows, rows])


def is_persisted(df):
    return df.storageLevel.useMemory or df.storageLevel.useDisk


@pytest.mark.connect
def test_what_the_caller_persisted_stays_persisted(spark, static, tmp_path):
    """With any level; or another DataFrame with the same plan; after two `Totals`, and after an exception."""

    def make():
        return spark.range(100).selectExpr("CAST(id % 3 AS string) AS k", "id AS v")

    def check(name, rows, kept):
        for folder in ("a", "b"):
            Totals(tmp_path / name / folder, "k", COUNT, 2, "planned")(rows, 0)
            assert is_persisted(rows) == kept
        with pytest.raises(Exception, match="a worker has failed"):
            Totals(tmp_path / name / "c", "k", Count(fails=True), 2, "planned")(rows, 0)
        assert is_persisted(rows) == kept

    check("ours", make(), False)
    rows = make().persist(StorageLevel.DISK_ONLY)
    try:
        check("level", rows, True)
        assert not rows.storageLevel.useMemory
        check("equal", make(), True)
    finally:
        rows.unpersist()
    assert not is_persisted(make())


def test_totals_of_another_expression_with_the_same_name_are_refused(spark, tmp_path):
    rows, folder = batch_of(spark, 0), str(tmp_path / "totals")
    Totals(folder, F.lower("k").alias("x"), COUNT, 2)(rows, 0)
    with pytest.raises(InputError, match=r"key was .*lower.* and is now .*upper"):
        Totals(folder, F.upper("k").alias("x"), COUNT, 2)(rows, 1)


def test_a_folder_must_be_named():
    for wrong in ("", None, 7):
        with pytest.raises(InputError, match=r"folder must be a path or an address such as .*, got"):
            Totals(wrong, "k", COUNT, 2)


@pytest.mark.slow
@pytest.mark.spark
def test_a_default_file_system_that_is_not_local(tmp_path):
    """Hadoop's view file system, with one mounted folder: a path without a scheme is there, not on the local disk."""
    program = """
import json, sys
from keyspread import ColumnOperator
from keyspread.spark import Totals, session
folder = sys.argv[1]
spark = session(**{
    "spark.hadoop.fs.defaultFS": "viewfs://cluster/",
    "spark.hadoop.fs.viewfs.mounttable.cluster.link./mounted": "file://" + folder,
    "spark.hadoop.fs.viewfs.mounttable.cluster.homedir": "/mounted",
    "spark.sql.shuffle.partitions": 2,
    "spark.sql.warehouse.dir": "file://" + folder + "/warehouse",
})
class Count(ColumnOperator):
    state = schema = "n bigint"
    def partial(self, rows, key):
        return rows.group_by(key).aggregate([([], "count_all")]).rename_columns([*key, "n"])
    def merge(self, states, key):
        return states.group_by(key).aggregate([("n", "sum")]).rename_columns([*key, "n"])
rows, answers = spark.range(10).selectExpr("id % 2 AS k"), []
for address in ("/mounted/a", "viewfs:/mounted/b", "viewfs://cluster/mounted/c d"):
    totals = Totals(address, "k", Count(), 2, merge_every=2)
    for batch in range(3):
        totals(rows, batch)
    answers.append(sorted(map(tuple, totals.read(spark).collect())))
print(json.dumps(answers))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=600, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [[[0, 15], [1, 15]]] * 3
    assert {path.name for path in tmp_path.iterdir()} >= {"a", "b", "c d"}
    assert not Path("/mounted").exists()
