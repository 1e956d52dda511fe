"""The daemon of Python workers for the benchmark: it compiles the kernels of all schemes before the clock starts."""

import numpy as np
from pyspark.daemon import manager

from keyspread.online.sender import Sender
from keyspread.planned import look_ahead
from keyspread.schemes import SCHEMES
from keyspread.spark.launch.daemon import settle

if __name__ == "__main__":
    few = np.arange(10, dtype=np.int64)
    for scheme in SCHEMES:
        Sender(scheme, 4, choices=3).route(few)
    look_ahead.route(few, workers=4)
    settle()
    manager()
