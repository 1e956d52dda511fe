"""The result of one figure: its table, its plot and its verdicts. The report shows it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from keyspread.experiments.figure import Figure
from keyspread.experiments.scale import Scale
from keyspread.experiments.verdict import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


@dataclass(frozen=True)
class FigureResult:
    """One reproduced figure."""

    figure: Figure
    table: pd.DataFrame
    verdicts: list[Verdict]
    picture: "Picture | None"
    runs: int
    """Number of simulations behind the table."""

    @classmethod
    def of(cls, figure: Figure, scale: Scale, results: pd.DataFrame) -> "FigureResult":
        """Build the table from the results of the figure's runs, then judge and draw it."""
        runs = figure.runs(scale)
        table = figure.table(scale, results[results["run"].isin([run.id for run in runs])])
        return cls(figure, table, figure.verdicts(table), figure.plot(table), len(runs))
