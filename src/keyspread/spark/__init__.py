"""keyspread on Spark: the only part that imports an engine; `import keyspread` does not load it."""

try:
    import pyspark  # noqa: F401  (asked for first, so that one line names the remedy)
except ModuleNotFoundError as error:
    from keyspread.errors import ExtraMissingError

    raise ExtraMissingError(
        "keyspread.spark needs PySpark, which is not installed: pip install 'keyspread[spark,java]'"
    ) from error

from keyspread.spark.aggregate import aggregate
from keyspread.spark.plan import plan
from keyspread.spark.session import session
from keyspread.spark.spread import spread
from keyspread.spark.streaming.json_lines import JsonLines
from keyspread.spark.streaming.stream_settings import stream_settings
from keyspread.spark.streaming.stream_watch import BatchSeen, StreamWatch
from keyspread.spark.streaming.totals import Totals
from keyspread.spark.watch import Balance, Watch, balance

__all__ = [
    "Balance",
    "BatchSeen",
    "JsonLines",
    "StreamWatch",
    "Totals",
    "Watch",
    "aggregate",
    "balance",
    "plan",
    "session",
    "spread",
    "stream_settings",
]


def __dir__() -> list[str]:
    """List the public names only."""
    return [*__all__]
