"""Where Python workers fork from: what they all need is imported here, once, before the first of them.

Spark runs it for `spark.python.daemon.module`. Otherwise every worker imports by itself: two seconds of a core each.
"""

import numba  # noqa: F401
import numpy  # noqa: F401
import pandas  # noqa: F401
import pyarrow  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import keyspread.spark.sources  # noqa: F401

if __name__ == "__main__":
    manager()
