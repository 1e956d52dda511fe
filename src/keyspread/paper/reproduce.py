"""List all figures and reproduce some of them. Figures that share a run share its result."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from keyspread.errors import InputError
from keyspread.paper.figures.claim_constraints import ClaimConstraints
from keyspread.paper.figures.claim_estimate import ClaimEstimate
from keyspread.paper.figures.claim_memory import ClaimMemory
from keyspread.paper.figures.figure import Figure, FigureResult, Scale
from keyspread.paper.figures.figure_01 import Figure01
from keyspread.paper.figures.figure_03 import Figure03
from keyspread.paper.figures.figure_04 import Figure04
from keyspread.paper.figures.figure_05 import Figure05
from keyspread.paper.figures.figure_06 import Figure06
from keyspread.paper.figures.figure_07 import Figure07
from keyspread.paper.figures.figure_08 import Figure08
from keyspread.paper.figures.figure_09 import Figure09
from keyspread.paper.figures.figure_10 import Figure10
from keyspread.paper.figures.figure_11 import Figure11
from keyspread.paper.figures.figure_12 import Figure12
from keyspread.paper.figures.figure_13 import Figure13
from keyspread.paper.figures.figure_14 import Figure14
from keyspread.paper.runs.run import Run
from keyspread.paper.runs.sweep import Results

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ALL: list[type[Figure]] = [Figure01, Figure03, Figure04, Figure05, Figure06, Figure07, Figure08, Figure09]
_ALL += [Figure10, Figure11, Figure12, Figure13, Figure14, ClaimConstraints, ClaimEstimate, ClaimMemory]

FIGURES: dict[str, Figure] = {figure.name: figure() for figure in _ALL}
"""All figures by name, in the order of the report."""


def find_figures(names: Sequence[str], deployed: bool = False) -> list[Figure]:
    """Return the figures with these names; 'figure-10', 'fig10' and '10' are the same.

    No names mean all figures; those of a running engine only if there is a measurement (`deployed`).
    """
    if not names:
        return [figure for figure in FIGURES.values() if deployed or not figure.deployed]
    named = {name: name.lower().removeprefix("figure").removeprefix("fig").lstrip("-. 0") for name in names}
    for name, plain in named.items():
        if plain == "2":
            raise InputError(
                "figure 2 is a diagram of skewed keys on workers: there is nothing to compute, leave it out"
            )
        if plain not in FIGURES:
            raise InputError(f"unknown figure {name!r}; known are {', '.join(FIGURES)}")
    return [figure for figure in FIGURES.values() if figure.name in named.values()]


def runs_of(figures: Sequence[Figure], scale: Scale) -> list[Run]:
    """Return the runs that these figures need, each run once."""
    return list({run.id: run for figure in figures for run in figure.runs(scale)}.values())


def reproduce(
    figures: Sequence[Figure],
    scale: Scale,
    results: Results,
    spark: "SparkSession | None",
    progress: Callable[[int, int], None] | None = None,
) -> list[FigureResult]:
    """Simulate on Spark the runs that `results` does not have yet, then return the result of every figure.

    `spark` may be None if no run is missing.
    """
    runs = runs_of(figures, scale)
    if spark is not None:
        from keyspread.paper.runs.sweep import sweep

        sweep(spark, runs, results, progress)
    rows: pd.DataFrame = results.table(runs).to_pandas()
    return [FigureResult.of(figure, scale, rows) for figure in figures]
