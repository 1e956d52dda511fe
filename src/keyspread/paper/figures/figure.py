"""Verdicts: a claim of the paper, in its own words, our numbers, and whether the claim holds."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from keyspread import checks
from keyspread.errors import InputError
from keyspread.paper.figures.style import Picture
from keyspread.paper.runs.run import Run, StreamRecipe
from keyspread.streams import look_alike


class Outcome(StrEnum):
    """Whether a claim holds."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "does not hold"


@dataclass(frozen=True)
class Verdict:
    """One claim of the paper. `measured` is computed from our results; `why` is empty only if the claim holds."""

    claim: str
    where: str
    measured: str
    outcome: Outcome
    why: str = ""
    words: str = ""
    """The paper's own words, a few of them."""
    check: str = ""
    """Why this is a check of our own set-up and no verdict on the paper; empty for a claim. Checks are not counted."""

    @property
    def is_claim(self) -> bool:
        """Whether this is a claim of the paper, which counts."""
        return not self.check

    def to_dict(self) -> dict[str, str]:
        """Return plain values, ready for JSON."""
        return {name: str(value) for name, value in asdict(self).items()}


def judge(
    claim: str,
    where: str,
    measured: str,
    holds: bool,
    *,
    in_part: bool = False,
    why: str = "",
    words: str = "",
    check: str = "",
) -> Verdict:
    """Return a verdict: the claim holds, else it holds in part, else it does not. `why` is dropped if it holds.

    >>> judge("two and two is five", "Fig. 0", "4", 2 + 2 == 5, why="it is four").outcome.value
    'does not hold'
    """
    outcome = Outcome.HOLDS if holds else Outcome.IN_PART if in_part else Outcome.FAILS
    return Verdict(claim, where, measured, outcome, "" if holds else why, words, check)


def count(verdicts: "list[Verdict]") -> dict[Outcome, int]:
    """Return how many claims have each outcome; checks are left out."""
    return {outcome: sum(one.outcome == outcome for one in verdicts if one.is_claim) for outcome in Outcome}


def summary(verdicts: "list[Verdict]") -> str:
    """Return one line.

    >>> summary([judge("a", "", "", True), judge("b", "", "", True), judge("c", "", "", True, check="an input")])
    '2 claims: 2 hold, 0 hold in part, 0 do not hold; 1 check of our own, not counted'
    """
    holds, in_part, fails = count(verdicts).values()
    claims, checks = holds + in_part + fails, sum(not one.is_claim for one in verdicts)
    own = f"; {checks} {'check' if checks == 1 else 'checks'} of our own, not counted" if checks else ""
    return (
        f"{claims} {'claim' if claims == 1 else 'claims'}: {holds} {'holds' if holds == 1 else 'hold'}, "
        f"{in_part} {'holds' if in_part == 1 else 'hold'} in part, {fails} {'does' if fails == 1 else 'do'} not hold"
    ) + own


# The size of the experiments: `quick` shows the shapes within minutes, `paper` uses the paper's sizes.


if TYPE_CHECKING:
    from keyspread.paper.deployment.measurements import Deployment


@dataclass(frozen=True)
class Scale:
    """Sizes and seeds of the experiments. Each seed has its own streams and its own hash functions."""

    name: str
    messages: int
    skews: tuple[float, ...]
    seeds: tuple[int, ...]
    wikipedia: float
    twitter: float
    cashtags: float
    data: tuple[StreamRecipe, ...] = ()
    """Streams of the user, which replace the look-alikes."""
    deployment: "Deployment | None" = None
    """The measurement on a running engine, for figures 13 and 14."""

    def wikipedia_stream(self, seed: int) -> StreamRecipe:
        """Return the user's wikibench trace, or else the look-alike of WP."""
        traces = [stream for stream in self.data if getattr(stream, "format", None) == "wikibench"]
        return traces[0] if traces else look_alike("wp", self.wikipedia, seed)

    def real_streams(self, seed: int) -> dict[str, StreamRecipe]:
        """Return the streams of figures 11 and 12 by their symbol."""
        if self.data:
            return {stream.title: stream for stream in self.data}
        sizes = {"WP": self.wikipedia, "TW": self.twitter, "CT": self.cashtags}
        return {symbol: look_alike(symbol, size, seed) for symbol, size in sizes.items()}


PAPER_SKEWS = tuple(tenths / 10 for tenths in range(1, 21))
SCALES = {
    "quick": Scale("quick", 10**6, PAPER_SKEWS[1::2], (0, 1, 2), wikipedia=0.05, twitter=0.001, cashtags=1.0),
    # TW has 1.2 G messages and 31 M keys. All of it would take a day for a figure that does not depend on the size.
    "paper": Scale("paper", 10**7, PAPER_SKEWS, (0, 1, 2), wikipedia=1.0, twitter=0.05, cashtags=1.0),
}


def find_scale(name: str, seeds: int | None = None, data: Sequence[StreamRecipe] = ()) -> Scale:
    """Return the scale with this name, with another number of seeds or with the user's streams if given."""
    scale = SCALES.get(name.lower())
    if scale is None:
        raise InputError(f"size must be one of {', '.join(SCALES)}, got {name!r}")
    if seeds is not None:
        scale = replace(scale, seeds=tuple(range(checks.whole_number("seeds", seeds))))
    return replace(scale, data=tuple(data))


# A figure: parameters → runs → table → plot → verdicts, and its result.
#
# A figure without runs is computed from the Zipf law alone. The table is tidy: one row per point of the plot. The plot
# and the verdicts depend on the table only, so anyone who has the table can draw the plot again.


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
        """Build the table. `results` has one row per run and time slot (see `keyspread.paper.runs.run.SCHEMA`)."""

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
