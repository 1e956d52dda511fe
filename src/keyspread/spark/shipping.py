"""Functions that run on executors: they say what to do if keyspread is not installed there."""

from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle


def shipped(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function in a form that an executor without keyspread can read, to raise one line with the remedy.

    The function travels as bytes within one that refers to nothing of keyspread.
    """
    packed = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]

    def run(batches: Any) -> Any:
        import importlib.util
        import pickle

        if importlib.util.find_spec("keyspread") is None:
            raise ModuleNotFoundError(
                "keyspread is not installed on this executor: install it there (pip install keyspread), or ship it "
                "with the job: --archives with a packed environment, or --py-files with keyspread and executors that "
                "have numpy, numba, pyarrow and xxhash (docs/platforms.md)"
            )
        return pickle.loads(packed)(batches)

    return run
