"""The folder of `Totals`, written and read by Spark itself, so that it is where Spark says, on every file system.

A job that meets a missing or damaged file fails, whatever the session's settings say.
"""

import re
from collections.abc import Sequence
from urllib.parse import unquote

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, DataFrameReader, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from keyspread.errors import InputError
from keyspread.spark.capabilities import can_observe, condition_of, quiet_analysis
from keyspread.spark.failures import one_line_error
from keyspread.spark.streaming.commits import SLOTS, Commit

_COMMITS = f"slot-[0-{SLOTS - 1}]/commits"
_OURS = re.compile(r"/slot-\d(/commits|/parts-[^/]+)?/part-[^/]*$")
_BATCH = re.compile(r"/parts-(?:until-)?(\d+)-[^/]*/part-[^/]*$")
_ATTEMPTS = 5  # to read commits while another driver clears a slot


class TotalsFolder:
    """A folder on any file system that Spark knows. The address is given to Spark as it is."""

    def __init__(self, spark: SparkSession, address: str) -> None:
        self._spark = spark
        self.address = address

    def lines(self) -> list[str]:
        """Return all commits. If there are none, refuse a folder that holds anything that `Totals` did not write."""
        found = self._lines()
        if not found:
            self._check_contents()
        return found

    def append(self, slot: int, line: str) -> None:
        """Write a commit: one file with one line."""
        row = self._spark.range(0, 1, 1, 1).select(F.lit(line).alias("value"))
        row.write.mode("append").text(self._at(f"slot-{slot}/commits"))

    def clear(self, slot: int) -> None:
        """Overwrite a slot with an empty file."""
        nothing = self._spark.range(0, 0, 1, 1).select(F.lit("").alias("value"))
        nothing.write.mode("overwrite").text(self._at(f"slot-{slot}"))

    def write(self, states: DataFrame, folder: str) -> int:
        """Write partial states, and return the number of rows that were written."""
        if not can_observe(states):
            states.write.parquet(self._at(folder))
            return int(self._strict_reader().schema(states.schema).parquet(self._literal(folder)).count())
        seen = Observation()  # counts in the job that writes; a task that is retried counts once
        states.observe(seen, F.count(F.lit(1)).alias("rows")).write.parquet(self._at(folder))
        return int(seen.get["rows"])

    def states(self, commits: Sequence[Commit], schema: StructType) -> DataFrame:
        """Return the partial states of all commits, after checking that every row is there."""
        wanted = sum(one.rows for one in commits)
        try:
            found = self._strict_reader().schema(schema).parquet(*(self._literal(one.folder) for one in commits))
            rows = found.count()  # reads no column, only the footer of each file
        except (PySparkException, Py4JError) as problem:
            raise InputError(f"{self.address}: these totals cannot be read: {one_line_error(problem)}") from problem
        if rows != wanted:
            raise InputError(
                f"{self.address}: these totals cannot be read: {rows} of {wanted} partial states are there: "
                "restore the folder, or start the query with a new folder and a new checkpoint"
            )
        return found

    def _lines(self) -> list[str]:
        for attempt in range(_ATTEMPTS):
            try:
                files = self._files(_COMMITS)
                lines = [] if files is None else [row.value for row in files.collect()]
                if files is None or len(lines) == len(files.inputFiles()):
                    return lines
            except (PySparkException, Py4JError) as problem:  # a file was deleted after it was listed
                if attempt == _ATTEMPTS - 1:
                    raise InputError(str(one_line_error(problem))) from problem
        raise InputError("a commit is an empty file")

    def _check_contents(self) -> None:
        files = self._files("")
        names = [] if files is None else list(map(unquote, files.inputFiles()))
        foreign = [one for one in names if not _OURS.search(one)]
        if foreign:
            raise InputError(f"there are no commits, but there is {min(foreign)}")
        # A crash leaves the parts of one batch without a commit. The next batch is written only after its commit.
        batches = {batch[1] for one in names if (batch := _BATCH.search(one)) is not None}
        if len(batches) > 1:
            raise InputError(f"the commits are missing, but there are partial states of {len(batches)} batches")

    def _files(self, pattern: str) -> DataFrame | None:
        """Return the lines of all files under a pattern, not yet read; None if there is no such file or folder."""
        try:
            with quiet_analysis():
                files = self._strict_reader().text(self._literal(pattern))
                files.schema  # noqa: B018  (over Connect, only this looks for the files)
                return files
        except AnalysisException as problem:
            if condition_of(problem) == "PATH_NOT_FOUND":
                return None
            raise

    def _strict_reader(self) -> DataFrameReader:
        return self._spark.read.options(
            # Without partitions by folder name: a name=value in the address is part of the address.
            recursiveFileLookup=True,
            ignoreMissingFiles=False,
            ignoreCorruptFiles=False,
        )

    def _at(self, name: str) -> str:
        return f"{self.address.rstrip('/')}/{name}".rstrip("/") or "/"

    def _literal(self, name: str) -> str:
        """Return the address of a name in the folder for reading, where Spark would take * or [ as a pattern."""
        root = re.sub(r"([][{}*?\\])", r"\\\1", self.address.rstrip("/"))
        return f"{root}/{name}".rstrip("/") or "/"
