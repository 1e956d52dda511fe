"""The way in which `aggregate` computes a result, and why: what a watch prints."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Way:
    """How a result is computed: the name of a scheme, and the reason in one line."""

    name: str
    reason: str

    def __str__(self) -> str:
        """Return both, as one line."""
        return f"{self.name}: {self.reason}"


def by_scheme(scheme: str) -> Way:
    """Return the way of a scheme that the caller chose."""
    return Way(scheme, "the caller chose this scheme")


def of_operator(scheme: str) -> Way:
    """Return the way of an operator if the caller chose no scheme."""
    return Way(scheme, "an Operator runs in Python, where Spark cannot fold rows before they move")


MOST_OF_WHOLE_KEYS = 1.1
"""The busiest worker, as a multiple of the even load, up to which the keys of an operator stay whole."""


def of_whole_keys(busiest: float) -> Way:
    """Return the way of an operator whose keys need no cut.

    >>> print(of_whole_keys(1.024))
    key: no key is hot enough to matter, with whole keys the busiest worker has 1.02 x the even load
    """
    return Way("key", f"no key is hot enough to matter, with whole keys the busiest worker has {_loads(busiest)}")


def of_cut_keys(busiest: float) -> Way:
    """Return the way of an operator whose hot keys are cut, because whole ones would be uneven.

    >>> print(of_cut_keys(4.0))
    planned: with whole keys the busiest worker would have 4.00 x the even load
    """
    return Way("planned", f"with whole keys the busiest worker would have {_loads(busiest)}")


def of_given_plan() -> Way:
    """Return the way of an operator that is routed by a plan of the caller."""
    return Way("planned", "the caller passed a plan")


def _loads(busiest: float) -> str:
    return f"{busiest:.2f} x the even load"
