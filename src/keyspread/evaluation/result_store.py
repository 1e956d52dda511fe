"""A folder of results: a run that is in it is never simulated again, and every file in it is complete.

Each file is written under a hidden name and then renamed, so a killed sweep leaves only complete files. The folder is
an ordinary Parquet data set: pandas, Spark and DuckDB read it as one table with the columns of `run.SCHEMA`.
"""

import hashlib
import os
import uuid
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import keyspread
from keyspread.errors import InputError
from keyspread.evaluation.run import SCHEMA, Run

TABLE_FORMAT = "2"
"""The version of the columns and of what they mean."""

_FORMAT, _VERSION, _RUNS = b"keyspread.table_format", b"keyspread.version", b"keyspread.evaluation.run"


class Results:
    """The results in a folder. Any number of processes may add results at the same time."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Open a folder; create it if it does not exist, and refuse it if it cannot be written."""
        self.folder = os.fspath(folder)
        self._known: dict[str, set[str]] = {}  # file -> its runs; a file never changes
        try:
            os.makedirs(self.folder, exist_ok=True)
            probe = os.path.join(self.folder, f".{uuid.uuid4().hex}")
            with open(probe, "wb"):
                pass
            os.remove(probe)
        except OSError as problem:
            raise InputError(
                f"{self.folder}: cannot be written ({problem.strerror or problem}): choose another folder"
            ) from None

    def add(self, table: pa.Table) -> None:
        """Store the results of one or several runs: all of them or none."""
        runs = sorted(pc.unique(table["run"]).to_pylist())
        about = {
            _FORMAT: TABLE_FORMAT.encode(),
            _VERSION: keyspread.__version__.encode(),
            _RUNS: " ".join(runs).encode(),
        }
        name = f"part-{hashlib.sha256(about[_RUNS]).hexdigest()[:20]}.parquet"
        hidden = os.path.join(self.folder, f".{uuid.uuid4().hex}")
        try:
            # The columns of a run repeat for each of its slots: dictionary encoding makes that nearly free.
            pq.write_table(table.replace_schema_metadata(about), hidden, compression="zstd")
            os.replace(hidden, os.path.join(self.folder, name))
        finally:
            if os.path.exists(hidden):
                os.remove(hidden)

    def done(self) -> set[str]:
        """Return the ids of all stored runs."""
        return {run for part in self._parts() for run in self._about(part)}

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Return the runs that are not stored, each once."""
        done = self.done()
        return list({run.id: run for run in runs if run.id not in done}.values())

    def table(self, runs: Sequence[Run] | None = None) -> pa.Table:
        """Return all results, or those of these runs, ordered by run and slot."""
        left = self.done() if runs is None else {run.id for run in runs}
        tables = [SCHEMA.empty_table()]
        for part in self._parts():
            # A run that two sweeps made at the same time is in two files; read it once.
            if take := left & self._about(part):
                table = self._read(part)
                tables.append(table.filter(pc.is_in(table["run"], pa.array(sorted(take), pa.string()))))
                left = left - take
        return pa.concat_tables(tables).sort_by([("run", "ascending"), ("slot", "ascending")]).combine_chunks()

    @staticmethod
    def _read(part: str) -> pa.Table:
        """Read one file; its schema can be intact while its columns are damaged."""
        try:
            return pq.read_table(part, schema=SCHEMA)
        except (pa.ArrowException, OSError) as problem:
            raise InputError(f"{part}: is damaged ({_in_one_line(problem)}): delete the file") from None

    def _parts(self) -> list[str]:
        names = sorted(os.listdir(self.folder))
        return [os.path.join(self.folder, name) for name in names if name.endswith(".parquet") and name[0] not in "._"]

    def _about(self, part: str) -> set[str]:
        """Return the ids of the runs in one file; refuse a file of another origin or version."""
        if part not in self._known:
            self._known[part] = self._read_about(part)
        return self._known[part]

    @staticmethod
    def _read_about(part: str) -> set[str]:
        remedy = "choose another folder, or delete this one to compute everything again"
        try:
            about = pq.read_schema(part).metadata or {}
        except (pa.ArrowException, OSError) as problem:
            raise InputError(f"{part}: is not a table ({_in_one_line(problem)}): delete the file") from None
        if _RUNS not in about:
            raise InputError(f"{part}: is not a table of keyspread: {remedy}")
        found = (about.get(_FORMAT, b"?").decode(errors="replace"), about.get(_VERSION, b"?").decode(errors="replace"))
        if found != (TABLE_FORMAT, keyspread.__version__):
            raise InputError(
                f"{part}: comes from keyspread {found[1]} (table format {found[0]}), "
                f"this is {keyspread.__version__} (table format {TABLE_FORMAT}): {remedy}"
            )
        return set(about[_RUNS].decode(errors="replace").split())


def _in_one_line(problem: Exception) -> str:
    return " ".join(str(problem).split())
