"""The parameters of an operator as text: operators whose parameters differ do not share a state. No engine."""

import dataclasses
import enum
import functools
import hashlib
import re
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from types import MemberDescriptorType
from typing import Any

import numpy as np

from keyspread.operators import OPERATORS, AnyOperator

_PLAIN = (type(None), bool, int, float, complex, str, bytes, Decimal, Fraction, date, datetime, time, timedelta)
_APART = {"schema", "state", "batches"}  # compared on their own, or without effect on a state


def parameters_of(operator: AnyOperator) -> dict[str, str]:
    """Return the attributes of an operator, its own and those of its class, as text that is the same in every run.

    An attribute of a class that is not known here counts by the name of its class only.

    >>> from keyspread import Operator
    >>> class Quantile(Operator):
    ...     digits = 2
    ...     def __init__(self, share): self.share = share
    ...     zero = update = merge = finish = None
    >>> parameters_of(Quantile(0.9))
    {'digits': '2', 'share': '0.9'}
    """
    found: dict[str, Any] = {}
    for one in reversed(type(operator).__mro__):
        if issubclass(one, OPERATORS) and one not in OPERATORS:
            found |= {name: value for name, value in vars(one).items() if _is_value(name, value)}
    found |= {name: getattr(operator, name) for name, value in found.items() if isinstance(value, MemberDescriptorType)}
    found |= getattr(operator, "__dict__", {})
    return {name: _text(value) for name, value in sorted(found.items()) if name not in _APART}


def _is_value(name: str, value: Any) -> bool:
    hidden = (name.startswith("__") and name.endswith("__")) or name == "_abc_impl"
    steps = callable(value) or isinstance(value, (classmethod, staticmethod, property, functools.cached_property))
    return not hidden and not steps and name not in ("zero", "update", "merge", "finish")


def _text(value: Any) -> str:
    kind = type(value)
    if kind in _PLAIN:
        return repr(value)
    if isinstance(value, np.generic):
        plain = value.item()
        return repr(value) if isinstance(plain, np.generic) else _text(plain)  # Python has no long double
    if isinstance(value, (datetime, timedelta)):  # those of pandas
        return repr(value)
    if isinstance(value, np.ndarray):
        return f"{value.dtype} array of shape {value.shape}, sha256 {_digest(value)}"
    if isinstance(value, enum.Enum):
        return f"{kind.__qualname__}.{value.name}"
    if isinstance(value, re.Pattern):
        return f"re.compile({value.pattern!r}, {value.flags})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ", ".join(f"{one.name}={_text(getattr(value, one.name))}" for one in dataclasses.fields(value))
        return f"{kind.__qualname__}({fields})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(sorted(f"{_text(key)}: {_text(item)}" for key, item in value.items())) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(_text, value))) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_text, value)) + "]"
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    return f"{kind.__qualname__}(…)"


def _digest(value: Any) -> str:
    if value.dtype.hasobject:
        return hashlib.sha256(_text(value.tolist()).encode()).hexdigest()[:16]
    return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
