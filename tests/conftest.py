"""What all tests share: one Spark session, and the way to the real streams if they are on this machine."""

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """Name our markers."""
    config.addinivalue_line("markers", "connect: also run over Spark Connect, by test_connect.py")
    # No deadline: how long an example takes is a matter of the machine.
    settings.register_profile("keyspread", deadline=None)
    settings.load_profile("keyspread")


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """Two cores, four attempts a task, four shuffle partitions: the same session for every test that asks.

    With KEYSPREAD_TEST_REMOTE it is one over Spark Connect.
    """
    if find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed: pip install 'keyspread[spark,java]'")
    from keyspread.errors import JavaMissingError
    from keyspread.spark import session

    try:
        remote = os.environ.get("KEYSPREAD_TEST_REMOTE")
        where = {"remote": remote} if remote else {"master": "local[2,4]"}
        preloaded = {"spark.python.daemon.module": "keyspread.spark.launch.daemon"}  # spares each Python two seconds
        running = session(**where, **preloaded, **{"spark.sql.shuffle.partitions": 4})
    except JavaMissingError as error:
        pytest.skip(str(error))
    yield running
    running.stop()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the real streams, which are not part of the project."""
    folder = Path(os.environ.get("KEYSPREAD_DATA") or REPOSITORY.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real streams: {folder} is not there; set KEYSPREAD_DATA to the folder that has them")
    return folder


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write bytes into a file of this test."""

    def write(data: bytes, name: str = "stream.tsv") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    return write
