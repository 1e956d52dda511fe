"""The daemon of Python workers for the benchmark: it compiles the kernels of all schemes before the clock starts."""

import numpy as np
from pyspark.daemon import manager

from keyspread.planned import look_ahead
from keyspread.sender.registry import SCHEMES
from keyspread.sender.sender import Sender
from keyspread.spark._launch.daemon import settle

if __name__ == "__main__":
    # One hot key, and enough of it that every scheme has found it: cold and hot keys may have kernels of their own.
    few = np.zeros(1000, np.int64)
    for scheme in SCHEMES:
        Sender(scheme, 64, choices=32 if scheme == "greedy" else None).route(few)
    look_ahead.route(few, workers=64)
    settle()
    manager()
