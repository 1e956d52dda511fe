"""The way in which `aggregate` computes a result, and why: what a watch prints."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Way:
    """How a result is computed: "groupBy" (by Spark alone) or the name of a scheme, and the reason in one line.

    >>> print(GROUP_BY)
    groupBy: Spark folds SQL aggregates before rows move, so a hot key does no harm
    """

    name: str
    reason: str

    def __str__(self) -> str:
        """Return both, as one line."""
        return f"{self.name}: {self.reason}"


GROUP_BY = Way("groupBy", "Spark folds SQL aggregates before rows move, so a hot key does no harm")


def by_scheme(scheme: str) -> Way:
    """Return the way of a scheme that the caller chose."""
    return Way(scheme, "the caller chose this scheme")


def of_operator(scheme: str) -> Way:
    """Return the way of an operator if the caller chose no scheme."""
    return Way(scheme, "an Operator runs in Python, where Spark cannot fold rows before they move")
