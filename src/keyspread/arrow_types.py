"""Types of Arrow that older versions of pyarrow do not have: no column is of such a type there."""

import pyarrow as pa


def is_string_view(kind: pa.DataType) -> bool:
    """Return whether a type is string_view, which pyarrow has from 16 on.

    >>> is_string_view(pa.string())
    False
    """
    return hasattr(pa, "string_view") and bool(pa.types.is_string_view(kind))


def is_binary_view(kind: pa.DataType) -> bool:
    """Return whether a type is binary_view, which pyarrow has from 16 on."""
    return hasattr(pa, "binary_view") and bool(pa.types.is_binary_view(kind))
