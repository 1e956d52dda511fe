"""keyspread on Spark: the only part that imports an engine; `import keyspread` does not load it."""

try:
    import pyspark  # noqa: F401  (asked for first, so that one line names the remedy)
except ModuleNotFoundError as error:
    from keyspread.errors import ExtraMissingError

    raise ExtraMissingError(
        "keyspread.spark needs PySpark, which is not installed: pip install 'keyspread[spark,java]'"
    ) from error

from keyspread.spark._joining.plan import JoinPlan
from keyspread.spark._streaming.state import stream_settings
from keyspread.spark.aggregate import aggregate
from keyspread.spark.cogroup import cogroup
from keyspread.spark.diagnose import diagnose
from keyspread.spark.diagnosing import diagnosing
from keyspread.spark.for_write import for_write
from keyspread.spark.join import join, plan_join
from keyspread.spark.join_batches import join_batches
from keyspread.spark.join_streams import join_streams
from keyspread.spark.plan import plan
from keyspread.spark.session import session
from keyspread.spark.spread import spread
from keyspread.spark.stream_watch import StreamWatch
from keyspread.spark.totals import Totals
from keyspread.spark.watch import Watch, balance

__all__ = [
    "JoinPlan",
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
    "session",
    "spread",
    "stream_settings",
]


def __dir__() -> list[str]:
    """List the public names only."""
    return [*__all__]
