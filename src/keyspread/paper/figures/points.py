"""Turn rows of results into points of a plot: the end of each run, and the median and range over seeds."""

from collections.abc import Sequence

import pandas as pd

from keyspread.paper.runs.run import Run

KEYS = 10**4
"""The number of keys of the Zipf streams, where a figure does not vary it."""
EVEN_ENOUGH = 0.01
"""Our reading of 'ideal': the busiest worker has at most 1 % more than its even share, I·n <= 1 %."""


def ends(results: pd.DataFrame) -> pd.DataFrame:
    """Return the last time slot of every run: one row per run."""
    return results.sort_values(["run", "slot"]).groupby("run", sort=False).tail(1).reset_index(drop=True)


def over_seeds(frame: pd.DataFrame, by: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """Return the median of each value over the seeds, and its minimum and maximum as `value_low` and `value_high`."""
    groups = frame.groupby(list(by), sort=True, dropna=False)[list(values)]
    low, high = groups.min().add_suffix("_low"), groups.max().add_suffix("_high")
    table = pd.concat([groups.median(), low, high], axis=1).reset_index()
    order = [name for value in values for name in (value, f"{value}_low", f"{value}_high")]
    return table[[*by, *order]]


def with_run_columns(frame: pd.DataFrame, runs: Sequence[Run], **columns: Sequence[object]) -> pd.DataFrame:
    """Add columns that a figure knows about its runs but the results do not have, such as the symbol of a stream."""
    added = pd.DataFrame({"run": [run.id for run in runs], **columns}).drop_duplicates("run")
    return frame.merge(added, on="run", how="inner", validate="many_to_one")


def number(value: float) -> str:
    """Return a number as short text with two significant digits.

    >>> number(0.0266), number(0.5), number(0)
    ('2.7e-02', '0.5', '0')
    """
    if value == 0:
        return "0"
    return f"{value:.2g}" if abs(value) >= 0.1 else f"{value:.1e}"
