"""A sample of the rows that reads a share of the input files, where Spark can leave files out."""

from math import ceil

import numpy as np
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyspread.hashing import hash_keys
from keyspread.spark.capabilities import quiet_analysis

_NAME = "_metadata.file_name"


def sample_files(df: DataFrame, share: float, seed: int) -> DataFrame | None:
    """Return about this share of the rows from as few files as that takes, or None if the rows are not those of files.

    The share is rounded up to whole files, and of their rows a part is taken at random. Spark knows the name of a file
    before it reads it, so it does not open the others.
    """
    names = [file.rsplit("/", 1)[-1] for file in df.inputFiles()]  # a space is "%20" here and in the metadata
    if not names or _NAME.split(".")[0] in df.columns:
        return None
    # Files are chosen by a hash of seed and name, which Spark computes as we do. So no list of files is in the plan.
    hashes = np.sort(hash_keys([f"{seed}:{name}" for name in names]))
    last = hashes[ceil(share * hashes.size) - 1]
    chosen = int((hashes <= last).sum())  # more if files in several folders have the same name
    try:
        with quiet_analysis():
            some = df.where(F.xxhash64(F.concat(F.lit(f"{seed}:"), F.col(_NAME))) <= int(last))
            some.schema  # noqa: B018
    except AnalysisException:
        return None
    rate = share * hashes.size / chosen
    return some if rate >= 1 else some.sample(fraction=rate, seed=seed)
