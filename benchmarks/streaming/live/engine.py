"""A Spark with the settings of real-time mode, the Kafka connector and a broker; all of it ends with the block."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka_broker import RegistryOutOfReachError, broker, connector_jars

from keyspread.paper.live.topics import Topics
from keyspread.spark import session
from keyspread.spark.realtime import realtime_settings

from common import fail


class Engine(Topics):
    """Topics at a running broker, with a running Spark. The broker ends with its topics."""

    connector = ""


@contextmanager
def engine(slots: int, **settings: Any) -> Iterator[Engine]:
    """Yield a Spark with so many slots and a broker; what Spark and its Python workers print goes to a file.

    Stopping a query in real-time mode prints broken pipes of all Python workers, which mean nothing.
    """
    log = Path(tempfile.gettempdir()) / f"keyspread-realtime-{os.getpid()}.log"
    sys.stderr.flush()
    stderr = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        name, jars = connector_jars()
        needed = realtime_settings()
        with broker() as running:
            spark = session(
                **{
                    "master": f"local[{slots}]",
                    "spark.jars": ",".join(map(str, jars)),
                    "spark.python.daemon.module": "keyspread.paper.deployment.kernel_daemon",
                    **needed.application,
                    **needed.session,
                    **settings,
                }
            )
            try:
                live = Engine(spark, running.address)
                live.connector = name
                yield live
            finally:
                spark.stop()
    except RegistryOutOfReachError as problem:
        os.dup2(stderr, 2)
        fail(str(problem))
    finally:
        os.dup2(stderr, 2)
    log.unlink()
