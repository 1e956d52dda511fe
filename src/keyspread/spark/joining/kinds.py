"""The types of a join, in all of Spark's spellings."""

from enum import Enum
from typing import Any

from keyspread.errors import InputError


class Kind(Enum):
    """A type of join; the value is the name that Spark takes."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "left_semi"
    ANTI = "left_anti"

    @property
    def preserves_left(self) -> bool:
        """Whether a left row without a partner belongs to the result."""
        return self in (Kind.LEFT, Kind.FULL, Kind.ANTI)

    @property
    def preserves_right(self) -> bool:
        """Whether a right row without a partner belongs to the result."""
        return self in (Kind.RIGHT, Kind.FULL)

    @property
    def has_left_columns_only(self) -> bool:
        """Whether the right side only decides which left rows belong to the result."""
        return self in (Kind.SEMI, Kind.ANTI)


_SPELLINGS = {
    "inner": Kind.INNER,
    "left": Kind.LEFT,
    "leftouter": Kind.LEFT,
    "right": Kind.RIGHT,
    "rightouter": Kind.RIGHT,
    "full": Kind.FULL,
    "outer": Kind.FULL,
    "fullouter": Kind.FULL,
    "semi": Kind.SEMI,
    "leftsemi": Kind.SEMI,
    "anti": Kind.ANTI,
    "leftanti": Kind.ANTI,
}


def kind_of(how: Any) -> Kind:
    """Return the type of a join by any of Spark's names for it.

    >>> kind_of("Full_Outer"), kind_of("leftsemi")
    (<Kind.FULL: 'full'>, <Kind.SEMI: 'left_semi'>)
    """
    spelled = how.lower().replace("_", "") if isinstance(how, str) else None
    if spelled == "cross":
        raise InputError("how='cross' has no keys, so no key can be hot; use left.crossJoin(right)")
    if spelled not in _SPELLINGS:
        raise InputError(f"how must be one of inner, left, right, full, semi, anti, got {how!r}")
    return _SPELLINGS[spelled]
