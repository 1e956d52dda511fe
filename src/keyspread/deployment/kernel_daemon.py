"""The daemon of Python workers for the benchmark: it compiles the kernels of all schemes before the clock starts."""

import numpy as np
from pyspark.daemon import manager

from keyspread.online.sender import Sender
from keyspread.planned import look_ahead
from keyspread.schemes import SCHEMES
from keyspread.spark.launch.daemon import settle

if __name__ == "__main__":
    # One hot key, and enough of it that every scheme has found it: cold and hot keys may have kernels of their own.
    few = np.zeros(1000, np.int64)
    for scheme in SCHEMES:
        Sender(scheme, 64, choices=32 if scheme == "greedy" else None).route(few)
    look_ahead.route(few, workers=64)
    settle()
    manager()
