"""From rows of results to points of a plot: the end of each run, and the spread over seeds."""

from collections.abc import Sequence

import pandas as pd

from keyspread.evaluation.run import Run

EVEN_ENOUGH = 0.01
"""A worker that has at most this part more than its even share: I·n <= 1 %. Our reading of 'ideal' and 'flat'."""


def ends(results: pd.DataFrame) -> pd.DataFrame:
    """Give the last slot of every run: one row a run."""
    return results.sort_values(["run", "slot"]).groupby("run", sort=False).tail(1).reset_index(drop=True)


def over_seeds(frame: pd.DataFrame, by: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """Give the median over seeds of each value, with the lowest and highest as `value_low` and `value_high`."""
    groups = frame.groupby(list(by), sort=True, dropna=False)[list(values)]
    low, high = groups.min().add_suffix("_low"), groups.max().add_suffix("_high")
    table = pd.concat([groups.median(), low, high], axis=1).reset_index()
    order = [name for value in values for name in (value, f"{value}_low", f"{value}_high")]
    return table[[*by, *order]]


def with_run_columns(frame: pd.DataFrame, runs: Sequence[Run], **columns: Sequence[object]) -> pd.DataFrame:
    """Add what a figure knows of its runs and the results do not say, such as the symbol of a stream."""
    known = pd.DataFrame({"run": [run.id for run in runs], **columns}).drop_duplicates("run")
    return frame.merge(known, on="run", how="inner", validate="many_to_one")


def number(value: float) -> str:
    """Write a number as briefly as it can be read: 0.0266 as 2.7e-02, 0.5 as 0.5.

    >>> number(0.0266), number(0.5), number(0)
    ('2.7e-02', '0.5', '0')
    """
    if value == 0:
        return "0"
    return f"{value:.2g}" if abs(value) >= 0.1 else f"{value:.1e}"
