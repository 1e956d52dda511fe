"""A claim of the paper, and what our own numbers say of it. Nothing here knows a figure."""

from dataclasses import asdict, dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a claim came out."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "does not hold"


@dataclass(frozen=True)
class Verdict:
    """One claim. `measured` is computed from our results, `why` is there unless the claim simply holds."""

    claim: str
    where: str
    measured: str
    outcome: Outcome
    why: str = ""

    def to_dict(self) -> dict[str, str]:
        """Give it as plain values, ready for JSON."""
        return {name: str(value) for name, value in asdict(self).items()}


def judge(claim: str, where: str, measured: str, holds: bool, *, in_part: bool = False, why: str = "") -> Verdict:
    """Make a verdict: `holds`, else `in_part`, else not. The reason is dropped where the claim simply holds.

    >>> judge("two and two is five", "Fig. 0", "4", 2 + 2 == 5, why="it is four").outcome.value
    'does not hold'
    """
    outcome = Outcome.HOLDS if holds else Outcome.IN_PART if in_part else Outcome.FAILS
    return Verdict(claim, where, measured, outcome, "" if holds else why)
