"""The way in which a result is computed, and why: what a watch prints."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Way:
    """How a result is computed: the name of a scheme, and the reason in one line.

    >>> print(Way("planned", "the caller passed a plan"))
    planned: the caller passed a plan
    """

    name: str
    reason: str

    def __str__(self) -> str:
        """Return both, as one line."""
        return f"{self.name}: {self.reason}"
