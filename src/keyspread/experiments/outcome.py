"""A figure that was made: its table, its plot, its verdicts. What the report shows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from keyspread.experiments.figure import Figure
from keyspread.experiments.scale import Scale
from keyspread.experiments.verdict import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


@dataclass(frozen=True)
class Reproduced:
    """One figure, made anew."""

    figure: Figure
    table: pd.DataFrame
    verdicts: list[Verdict]
    picture: "Picture | None"
    runs: int

    @classmethod
    def of(cls, figure: Figure, scale: Scale, results: pd.DataFrame) -> "Reproduced":
        """Make the table from the results of its runs, then judge and draw it."""
        runs = figure.runs(scale)
        table = figure.table(scale, results[results["run"].isin([run.id for run in runs])])
        return cls(figure, table, figure.verdicts(table), figure.plot(table), len(runs))
