"""The process that Python workers fork from: it imports once what all of them need.

Set `spark.python.daemon.module` to this module. Without it, every worker imports by itself: two seconds of CPU each.
"""

import gc
import sys
from importlib import import_module
from zipimport import zipimporter

import numba  # noqa: F401
import numpy  # noqa: F401
import pandas  # noqa: F401
import pyarrow  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

PRELOADED = ("keyspread.spark", "keyspread.folding.fold", "keyspread.sender.sender", "keyspread.streams")
"""What workers use. By name, because nothing else of this folder may import what stands above it."""


def settle() -> None:
    """Save the workers work that each of them would repeat because of the imports."""
    # The first task of a worker invalidates the import caches, and then every zip importer reads its zip again. Spark's
    # own Python code is a zip with one importer per folder: one second of CPU per worker.
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            del sys.path_importer_cache[path]
    # A worker collects garbage after every task, which takes 50 ms with so many objects. None of these is garbage.
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    for name in PRELOADED:
        import_module(name)
    settle()
    manager()
