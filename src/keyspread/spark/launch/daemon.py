"""Where Python workers fork from: what they all need is imported here, once, before the first of them.

Spark runs it for `spark.python.daemon.module`. Otherwise every worker imports by itself: two seconds of a core each.
"""

import gc
import sys
from zipimport import zipimporter

import numba  # noqa: F401
import numpy  # noqa: F401
import pandas  # noqa: F401
import pyarrow  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import keyspread.job.sources  # noqa: F401


def settle() -> None:
    """Spare the workers what each of them would do with all that was imported here."""
    # A worker's first task invalidates the caches of imports, and then every importer of a zip reads it anew. Spark's
    # own Python comes as a zip with an importer for each of its folders: a second of a core for each worker.
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            del sys.path_importer_cache[path]
    # After every task a worker collects its garbage, 50 ms in the midst of so many objects. None of these is garbage.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    settle()
    manager()
