"""Real-time mode of Spark's streams: records flow one by one through running tasks, from the source to the sink.

There are no batches to look at and nothing may wait for the next record, so routing and its settings differ from
those of micro-batches. Experimental: Spark runs Python functions there only if its own check is turned off.
"""

from keyspread.spark.realtime.parts import RealtimeParts
from keyspread.spark.realtime.settings import RealtimeSettings, realtime_settings

__all__ = ["RealtimeParts", "RealtimeSettings", "realtime_settings"]
