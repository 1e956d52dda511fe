"""`stream_settings`: the session settings that a streaming `aggregate` needs."""

from pyspark.sql import SparkSession

from keyspread import checks
from keyspread.errors import InputError

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PARTITIONS = "spark.sql.shuffle.partitions"


def stream_settings(workers: int) -> dict[str, str]:
    """Return the settings that a session needs for a streaming `aggregate` over this many workers.

    Args:
        workers: The number of workers of the operator.

    Returns:
        The settings of Spark by their names.

    Raises:
        InputError: The number of workers is less than 1.

    >>> stream_settings(8)["spark.sql.shuffle.partitions"]
    '8'
    """
    return {_PARTITIONS: str(checks.whole_number("workers", workers)), _PROVIDER: _ROCKSDB}


def check_settings(spark: SparkSession, workers: int) -> None:
    """Refuse a session that lacks a setting; nothing is set behind the user's back."""
    found = {name: (spark.conf.get(name), needed) for name, needed in stream_settings(workers).items()}
    wrong = {name: (value, needed) for name, (value, needed) in found.items() if not _fits(name, value, needed)}
    if wrong:
        listed = ", ".join(f"{name}={needed} (is {found})" for name, (found, needed) in wrong.items())
        raise InputError(f"aggregate of a stream over {workers} workers needs these settings of the session: {listed}")


def _fits(name: str, found: str | None, needed: str) -> bool:
    if name == _PROVIDER:  # vendors have RocksDB providers of their own
        return found is not None and "rocksdb" in found.lower()
    return found == needed
