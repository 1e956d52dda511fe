"""The work of a join: rows that go in, and rows that come out."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from keyspread.spark.joining.kinds import Kind


@dataclass(frozen=True)
class Work:
    """The work of a key with l left and r right rows: l + r + cost · output, where the output is mostly l · r.

    >>> inner, left = Work(Kind.INNER, 1.0, False), Work(Kind.LEFT, 1.0, False)
    >>> float(inner.of_key(3, 4)), float(inner.of_key(3, 0)), float(left.of_key(3, 0))
    (19.0, 3.0, 6.0)
    """

    kind: Kind
    cost: float  # of a row of the output, relative to one of the input
    has_condition: bool

    @property
    def matches_once(self) -> bool:
        """Whether a left row needs one partner only, so that the right side can be reduced to distinct keys."""
        return self.kind.has_left_columns_only and not self.has_condition

    def of_key(self, left: Any, right: Any) -> Any:
        """Return the work of keys with this many rows on either side."""
        left, right = np.asarray(left, float), np.asarray(right, float)
        if self.matches_once:
            return left + np.minimum(right, 1) + self.cost * left
        output = left * right
        if self.kind.preserves_left:
            output = np.where(right < 0.5, left, output)
        if self.kind.preserves_right:
            output = np.where(left < 0.5, right, output)
        return left + right + self.cost * output

    def sql(self, left: str, right: str) -> str:
        """Return the same as SQL."""
        if self.matches_once:
            return f"double({left}) * {1 + self.cost!r}D + least({right}, 1)"
        output = f"double({left}) * {right}"
        if self.kind.preserves_left:
            output = f"IF({right} = 0, double({left}), {output})"
        if self.kind.preserves_right:
            output = f"IF({left} = 0, double({right}), {output})"
        return f"double({left}) + {right} + {self.cost!r}D * ({output})"

    def of_input(self, left: Any, right: Any) -> Any:
        """Return the work of rows that go in."""
        return left if self.matches_once else left + right

    def of_output(self, pairs: Any, left: Any, right: Any) -> Any:
        """Return the work of rows that come out of many keys with about this many pairs of partners.

        `left` and `right` are their rows on either side.
        """
        if self.matches_once:
            return self.cost * left
        output = pairs
        if self.kind.preserves_left:
            output = np.maximum(output, left)
        if self.kind.preserves_right:
            output = np.maximum(output, right)
        return self.cost * output
