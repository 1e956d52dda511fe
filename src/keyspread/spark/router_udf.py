"""A Python function that gives workers: of hashes, or of hashes and weights, an iterator of Arrow arrays each."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import functions as F

Columns = Any  # one pa.Array, or a tuple of them
Route = Callable[[Iterator[Columns]], Iterator[pa.Array]]


def as_udf(route: Route, weighted: bool) -> Any:
    """Make a function of columns. Spark reads from the annotations whether it takes one or two."""

    def one(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return route(batches)

    def two(batches: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        return route(batches)

    return F.arrow_udf(two if weighted else one, "int")  # type: ignore[attr-defined]


def arrays(columns: Columns) -> list[npt.NDArray[np.int64]]:
    """Give the columns of a batch: the hashes, and the weights if there are any."""
    return [column.to_numpy() for column in (columns if isinstance(columns, tuple) else (columns,))]
