"""keyspread on Spark: the only part that imports an engine; `import keyspread` does not load it."""

try:
    import pyspark  # noqa: F401  (asked for first, so that one line names the remedy)
except ModuleNotFoundError as error:
    from keyspread.errors import ExtraMissingError

    raise ExtraMissingError(
        "keyspread.spark needs PySpark, which is not installed: pip install 'keyspread[spark,java]'"
    ) from error

from keyspread.spark.aggregate import aggregate
from keyspread.spark.cogroup import cogroup
from keyspread.spark.diagnose import diagnose
from keyspread.spark.diagnosing import diagnosing
from keyspread.spark.for_write import for_write
from keyspread.spark.join import join, plan_join
from keyspread.spark.join_batches import join_batches
from keyspread.spark.join_streams import join_streams
from keyspread.spark.joining.plan import HotJoinKey, JoinPlan
from keyspread.spark.plan import plan
from keyspread.spark.realtime.parts import RealtimeParts
from keyspread.spark.realtime.settings import RealtimeSettings, realtime_settings
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
    "HotJoinKey",
    "JoinPlan",
    "JsonLines",
    "RealtimeParts",
    "RealtimeSettings",
    "StreamWatch",
    "Totals",
    "Watch",
    "aggregate",
    "balance",
    "cogroup",
    "diagnose",
    "diagnosing",
    "for_write",
    "join",
    "join_batches",
    "join_streams",
    "plan",
    "plan_join",
    "realtime_settings",
    "session",
    "spread",
    "stream_settings",
]


def __dir__() -> list[str]:
    """List the public names only."""
    return [*__all__]
