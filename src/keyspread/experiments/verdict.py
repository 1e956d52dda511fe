"""Verdicts: a claim of the paper, in its own words, our numbers, and whether the claim holds."""

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
