"""A figure: parameters → runs → table → plot → verdicts, and its result.

A figure without runs is computed from the Zipf law alone. The table is tidy: one row per point of the plot. The plot
and the verdicts depend on the table only, so anyone who has the table can draw the plot again.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from keyspread.evaluation.run import Run
from keyspread.experiments.scale import Scale
from keyspread.experiments.verdict import Verdict
from keyspread.report.style import Picture


class Figure(ABC):
    """One figure or claim of the paper, and how to reproduce it."""

    name: ClassVar[str]
    """The name on the command line: 1, 3, …, 14, constraints, estimate, memory."""
    label: ClassVar[str]
    """The name in the paper: 'Figure 10', 'Claim, Sec. 4.2', …"""
    title: ClassVar[str]
    paper: ClassVar[str]
    """What the paper shows and claims there, in our words."""
    method: ClassVar[str]
    """How our figure is produced, and how it differs from the paper's."""
    deployed: ClassVar[bool] = False
    """Whether it needs a measurement on a running engine (`Scale.deployment`), which takes several minutes."""

    def runs(self, scale: Scale) -> list[Run]:
        """Return the simulations that the figure needs."""
        return []

    @abstractmethod
    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Build the table. `results` has one row per run and time slot (see `keyspread.evaluation.run.SCHEMA`)."""

    @abstractmethod
    def plot(self, table: pd.DataFrame) -> Picture:
        """Draw the table."""

    @abstractmethod
    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge the paper's claims by our table alone."""


@dataclass(frozen=True)
class FigureResult:
    """One reproduced figure, as the report shows it."""

    figure: Figure
    table: pd.DataFrame
    verdicts: list[Verdict]
    picture: Picture
    runs: int
    """Number of simulations behind the table."""

    @classmethod
    def of(cls, figure: Figure, scale: Scale, results: pd.DataFrame) -> "FigureResult":
        """Build the table from the results of the figure's runs, then judge and draw it."""
        runs = figure.runs(scale)
        table = figure.table(scale, results[results["run"].isin([run.id for run in runs])])
        return cls(figure, table, figure.verdicts(table), figure.plot(table), len(runs))
