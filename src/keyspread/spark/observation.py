"""What Spark observed of the rows of a DataFrame, without waiting for an action that never comes."""

import contextlib
import threading
import time
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import Observation, SparkSession

from keyspread.errors import InputError

_IDLE = 5.0  # seconds without a job after which nothing will be observed any more


class Observed:
    """The result of one `Observation`."""

    def __init__(self) -> None:
        self.observation = Observation()
        self._reader: threading.Thread | None = None

    def values(self) -> dict[str, Any]:
        """Return what the first action observed, nothing if it had no rows; wait while it runs.

        Raise an `InputError` if no action has run. Over Spark Connect nothing is observed then.
        """
        if isinstance(self.observation, Observation):  # of classic Spark, which waits forever if nothing is observed
            self._wait()
        try:
            return self.observation.get
        except Py4JError as error:
            # If Spark knows beforehand that there are no rows, it skips the observation and fails to read it here.
            if "toPyRow" not in str(error):
                raise
            return {}

    def _wait(self) -> None:
        if self._reader is None:
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()
        jobs = SparkSession.active().sparkContext.statusTracker()
        idle_since = time.monotonic()
        while self._reader.is_alive():
            self._reader.join(0.05)
            if jobs.getActiveJobsIds():
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > _IDLE:
                raise InputError(
                    "this watch has seen nothing: run the DataFrame that spread or aggregate returned, then read the "
                    "watch. (Before Spark 4.1 a DataFrame without rows may not be seen either; keyspread.spark.balance "
                    "counts it.)"
                )

    def _read(self) -> None:
        with contextlib.suppress(Exception):  # whoever asks for the values gets the error
            self.observation.get  # noqa: B018
