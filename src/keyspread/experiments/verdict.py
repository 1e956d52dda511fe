"""Verdicts: a claim of the paper, our numbers, and whether the claim holds."""

from dataclasses import asdict, dataclass
from enum import StrEnum


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

    def to_dict(self) -> dict[str, str]:
        """Return plain values, ready for JSON."""
        return {name: str(value) for name, value in asdict(self).items()}


def judge(claim: str, where: str, measured: str, holds: bool, *, in_part: bool = False, why: str = "") -> Verdict:
    """Return a verdict: the claim holds, else it holds in part, else it does not. `why` is dropped if it holds.

    >>> judge("two and two is five", "Fig. 0", "4", 2 + 2 == 5, why="it is four").outcome.value
    'does not hold'
    """
    outcome = Outcome.HOLDS if holds else Outcome.IN_PART if in_part else Outcome.FAILS
    return Verdict(claim, where, measured, outcome, "" if holds else why)
