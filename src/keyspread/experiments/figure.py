"""What a figure is: parameters → runs → table → plot → verdicts. Each file `figure_NN.py` of this folder holds one.

A figure without runs is computed from the law alone. The table is tidy, a row a point of the plot, and is all that the
plot and the verdicts see: whoever has the table can draw the plot again.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from keyspread.evaluation.run import Run
from keyspread.experiments.scale import Scale
from keyspread.experiments.verdict import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


class Figure(ABC):
    """One figure or table of the paper, made anew."""

    name: ClassVar[str]
    """What a user types: 1, 3, …, 12, table-1, …, estimate."""
    label: ClassVar[str]
    """'Figure 10', 'Table I', …: how the paper calls it."""
    title: ClassVar[str]
    paper: ClassVar[str]
    """What the paper shows there and says of it, in our words."""
    made: ClassVar[str]
    """How ours was made, and where it differs."""
    deployed: ClassVar[bool] = False
    """Made from a measurement on a running engine (`Scale.deployment`), which takes minutes of a quiet machine."""

    def runs(self, scale: Scale) -> list[Run]:
        """List the simulations it needs."""
        return []

    @abstractmethod
    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Make the tidy table. `results` has a row for each of `runs` and each of its slots (see `runs.SCHEMA`)."""

    def plot(self, table: pd.DataFrame) -> "Picture | None":
        """Draw the table; None for what is a table in the paper too."""
        return None

    @abstractmethod
    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge what the paper claims there by our table alone."""
