"""Types of Arrow that older versions of pyarrow do not have: no column is of such a type there."""

import datetime
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from keyspread.errors import InputError


def is_string_view(kind: pa.DataType) -> bool:
    """Return whether a type is string_view, which pyarrow has from 16 on.

    >>> is_string_view(pa.string())
    False
    """
    return hasattr(pa, "string_view") and bool(pa.types.is_string_view(kind))


def is_binary_view(kind: pa.DataType) -> bool:
    """Return whether a type is binary_view, which pyarrow has from 16 on."""
    return hasattr(pa, "binary_view") and bool(pa.types.is_binary_view(kind))


# Hashing: every key becomes 64 bits here, equal to Spark's `xxhash64`. All other code works on integers only.
#
# More types of keys may be added. The hash of a value must never change: a key has to reach the same workers in this
# process and on Spark.


Hashes: TypeAlias = npt.NDArray[np.int64]

SEED = 42
"""Spark's seed for xxhash64."""

NULL_HASH = 42
"""The hash of null is the seed itself, as in Spark."""

_MICROSECONDS = {"h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000}
_SUPPORTED = "str, bytes, int, float, bool, date, datetime or None, or arrays and columns of these"
_REMEDY = "convert the keys to string, or hash them in Spark with xxhash64"


def hash_keys(keys: Any) -> Hashes:
    """Return Spark's `xxhash64` of the keys, as int64: a key has the same workers here and on Spark.

    `keys` is a list, tuple or iterator, a NumPy array, a pyarrow Array or ChunkedArray, a pandas Series, or
    any column with the Arrow interface. Each type is hashed as its Spark counterpart:

    - str, bytes: their bytes (UTF-8)
    - a Python int: `long`; a Python float: `double`; None: 42, as null in Spark
    - integers of fixed width: 8, 16 and 32 bits as `int`, 64 bits as `long`; unsigned ones as the next wider
      signed type, as Spark reads them from Parquet, and 64 unsigned bits as `long` where they fit
    - float, double: -0.0 equals 0.0, and all NaNs are equal, as in Spark; a NaN of pandas is null
    - bool: `boolean`; date: `date`; datetime: `timestamp`, in microseconds. A datetime without a time zone is
      taken as UTC, as `timestamp_ntz` is

    A list of mixed types hashes each key by its own type, so 1, 1.0 and "1" are three keys.

    Returns:
        An int64 array of the same length.

    Raises:
        InputError: A key has a type that cannot be hashed as Spark does it.

    >>> hash_keys(["a", "b", None, "a"]).tolist()
    [-8582455328737087284, -6391946315847899181, 42, -8582455328737087284]
    >>> (hash_keys([7]) == hash_keys(["7"])).tolist()
    [False]
    """
    if isinstance(keys, str | bytes | bytearray | memoryview):
        raise InputError(f"hash_keys takes a list of keys, got a {type(keys).__name__}: write [{_shorten(repr(keys))}]")
    if isinstance(keys, pa.ChunkedArray | pa.Array):
        return _hash_column(keys)
    if isinstance(keys, np.ndarray):
        return _hash_array(keys)
    # Ask the class: a DataFrame has an attribute for each of its columns, and one may be called "dtype".
    if type(keys).__module__.partition(".")[0] == "pandas" and hasattr(type(keys), "dtype"):
        return _hash_pandas(keys)
    if isinstance(keys, pa.Table | pa.RecordBatch):  # older versions of pyarrow would take its columns for chunks
        raise _unsupported(str(pa.struct(keys.schema)))
    if hasattr(keys, "__arrow_c_stream__"):
        return _hash_column(_imported(keys))
    if isinstance(keys, Sequence | Iterator):
        return _hash_objects(list(keys))
    raise InputError(
        f"hash_keys takes a list, array or column of keys, got {_type_name(type(keys))}: "
        "pass a list, a NumPy array, or one column of a table"
    )


def _imported(keys: Any) -> Any:
    """Return a column of another library as an Arrow column."""
    try:
        return pa.chunked_array(keys)
    except TypeError:
        raise InputError(
            f"a column of type {_type_name(type(keys))} needs pyarrow 15 or newer, this is {pa.__version__}: "
            "upgrade pyarrow, or pass a list"
        ) from None


def _hash_column(column: Any) -> Hashes:
    """Hash an Arrow column of any supported type; the hash of a null is NULL_HASH."""
    if isinstance(column, pa.ChunkedArray):
        parts = [_hash_column(chunk) for chunk in column.chunks]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)
    kind, types = column.type, pa.types
    if types.is_null(kind):
        return np.full(len(column), NULL_HASH, np.int64)
    if types.is_dictionary(kind):
        return _look_up(_hash_column(column.dictionary), column.indices)
    if is_string_view(kind):
        column = column.cast(pa.large_string())
    elif is_binary_view(kind) or types.is_fixed_size_binary(kind):
        column = column.cast(pa.large_binary())
    kind = column.type
    texts = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    if any(is_text(kind) for is_text in texts):
        return _hash_texts(column)
    if types.is_boolean(kind):
        values = column.cast(pa.int8())
    elif types.is_timestamp(kind):
        # The zone only matters for display: Arrow, like Spark, stores the instant.
        values = column.cast(pa.timestamp(kind.unit))
    elif types.is_date(kind):
        values = column.cast(pa.date32()).cast(pa.int32())
    elif types.is_integer(kind) or types.is_floating(kind):
        values = column
    else:
        raise _unsupported(str(kind))
    if not column.null_count:
        return _hash_array(values.to_numpy(zero_copy_only=False))
    zero = pa.scalar(0, pa.int64()).cast(values.type)
    hashes = _hash_array(values.fill_null(zero).to_numpy(zero_copy_only=False))
    hashes[column.is_null().to_numpy(zero_copy_only=False)] = NULL_HASH
    return hashes


def _hash_texts(column: Any) -> Hashes:
    """Hash an Arrow column of strings or bytes: each distinct value once, then look up every row."""
    encoded = column.dictionary_encode()
    distinct = encoded.dictionary
    _, offsets_buffer, data_buffer = distinct.buffers()
    wide = pa.types.is_large_string(distinct.type) or pa.types.is_large_binary(distinct.type)
    offsets: list[int] = []
    if len(distinct):
        every = np.frombuffer(offsets_buffer, np.int64 if wide else np.int32)
        offsets = every[distinct.offset : distinct.offset + len(distinct) + 1].tolist()
    data = memoryview(data_buffer if data_buffer is not None else b"")
    digest = xxhash.xxh64_intdigest
    digests = [digest(data[start:stop], SEED) for start, stop in pairwise(offsets)]
    return _look_up(np.array(digests, np.uint64).view(np.int64), encoded.indices)


def _look_up(hashes: Hashes, indices: Any) -> Hashes:
    """Return the hash of every row of a dictionary column; a null index becomes NULL_HASH."""
    # Null indices point one past the end, at NULL_HASH. Cast to int64 first: 128 does not fit into int8 indices.
    filled = indices.cast(pa.int64()).fill_null(len(hashes))
    with_null = np.append(hashes, np.int64(NULL_HASH))
    of_rows: Hashes = with_null[filled.to_numpy(zero_copy_only=False)]
    return of_rows


def _hash_array(array: npt.NDArray[Any]) -> Hashes:
    """Hash a NumPy array by its dtype, as the Spark type of that width."""
    if array.ndim != 1:
        raise InputError(f"keys must be a one-dimensional array, got {array.ndim} dimensions: flatten it first")
    if isinstance(array, np.ma.MaskedArray):
        hashes = _hash_array(np.asarray(array.filled()))
        hashes[np.ma.getmaskarray(array)] = NULL_HASH
        return hashes
    kind, width = array.dtype.kind, array.dtype.itemsize
    if kind == "b" or (kind == "i" and width <= 4) or (kind == "u" and width <= 2):
        return _xxh64_of_4_bytes(array.astype(np.int32).view(np.uint32))
    if kind == "i" or (kind == "u" and width == 4):
        return _xxh64_of_8_bytes(array.astype(np.int64, copy=False).view(np.uint64))
    if kind == "u":
        # As Python numbers: NumPy 1 would compare 64 unsigned bits with a signed number as floats.
        if array.size and int(array.max()) > np.iinfo(np.int64).max:
            raise _too_large(int(array.max()))
        return _xxh64_of_8_bytes(array.astype(np.uint64, copy=False))
    if kind == "f" and width == 4:
        return _xxh64_of_4_bytes(_one_zero_one_nan(array.astype(np.float32)).view(np.uint32))
    if kind == "f" and width == 8:
        return _xxh64_of_8_bytes(_one_zero_one_nan(array.astype(np.float64)).view(np.uint64))
    if kind == "M":
        return _hash_datetimes(array)
    if kind in "USTO":
        return _hash_objects(array.tolist())
    raise _unsupported(f"a NumPy array of {array.dtype}")


def _one_zero_one_nan(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Replace -0.0 by 0.0 and every NaN by the same NaN, in place, as Spark does before it hashes."""
    values[values == 0] = 0
    values[np.isnan(values)] = np.nan
    return values


def _hash_datetimes(array: npt.NDArray[np.datetime64]) -> Hashes:
    """Hash days and coarser units as dates, finer ones as timestamps in microseconds, rounded down as in Spark."""
    missing = np.isnat(array)
    unit, multiple = np.datetime_data(array.dtype)
    target = "datetime64[D]" if unit in ("Y", "M", "W", "D") else "datetime64[us]"
    if unit in _MICROSECONDS:  # if a year is too large, older versions of NumPy overflow silently and newer ones raise
        largest = np.iinfo(np.int64).max // (_MICROSECONDS[unit] * multiple)
        overflowed = (np.abs(array.astype(np.int64)) > largest) & ~missing
        if overflowed.any():
            raise InputError(f"timestamps must fit in 64 bits of microseconds, got {array[overflowed][0]}: {_REMEDY}")
    exact = array.astype(target)
    counts = exact.view(np.int64)
    if target == "datetime64[D]":
        hashes = _xxh64_of_4_bytes(counts.astype(np.int32).view(np.uint32))
    else:
        hashes = _xxh64_of_8_bytes(counts.view(np.uint64))
    hashes[missing] = NULL_HASH
    return hashes


def _hash_pandas(series: Any) -> Hashes:
    """Hash a pandas Series or Index; a missing value is null, as when Spark reads it through Arrow."""
    if series.dtype != object:
        try:
            return _hash_column(pa.array(series, from_pandas=True))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _unsupported(f"a pandas column of {series.dtype}") from error
    missing = series.isna().tolist()
    return _hash_objects([None if is_null else key for key, is_null in zip(series.tolist(), missing, strict=True)])


def _hash_objects(keys: list[Any]) -> Hashes:
    """Hash Python objects, each by its own type."""
    return _scatter(keys, type, _hash_one_type)


def _hash_one_type(kind: type, keys: list[Any]) -> Hashes:
    """Hash Python objects that are all of one type."""
    if kind is type(None):
        return np.full(len(keys), NULL_HASH, np.int64)
    # Subclasses come before their base class: bool is an int, np.float64 a float, datetime a date.
    if issubclass(kind, str):
        try:
            return _hash_texts(pa.array(keys, pa.large_string()))
        except UnicodeEncodeError as error:
            raise InputError(
                f"str keys must be valid Unicode, got {error.object!r} with half a surrogate pair: pass bytes"
            ) from error
    if issubclass(kind, bytes | bytearray | memoryview):
        return _hash_texts(pa.array(keys if kind is bytes else [bytes(key) for key in keys], pa.large_binary()))
    if issubclass(kind, np.generic):
        # By dtype: in one array, days and seconds would get one unit, and a date would become a timestamp.
        return _scatter(keys, lambda key: key.dtype, lambda dtype, some: _hash_array(np.array(some, dtype)))
    if issubclass(kind, bool):
        return _hash_array(np.array(keys, np.bool_))
    if issubclass(kind, int):
        try:
            return _hash_array(np.array(keys, np.int64))
        except OverflowError:
            raise _too_large(next(key for key in keys if not -(2**63) <= key < 2**63)) from None
    if issubclass(kind, float):
        return _hash_array(np.array(keys, np.float64))
    if issubclass(kind, datetime.datetime):
        return _hash_column(pa.array(keys, pa.timestamp("us"), from_pandas=True))
    if issubclass(kind, datetime.date):
        return _hash_column(pa.array(keys, pa.date32()))
    raise _unsupported(_type_name(kind))


def _scatter(keys: list[Any], label: Callable[[Any], Any], hash_group: Callable[[Any, list[Any]], Hashes]) -> Hashes:
    """Hash the keys of each label together, and return the hashes in the order of the keys."""
    labels = list(map(label, keys))
    distinct = set(labels)
    if len(distinct) == 1:
        return hash_group(labels[0], keys)
    hashes = np.empty(len(keys), np.int64)
    for group in distinct:
        places = [place for place, label_there in enumerate(labels) if label_there == group]
        hashes[places] = hash_group(group, [keys[place] for place in places])
    return hashes


# XXH64 of 8 or 4 bytes, from its specification; the part for 32 bytes and more is not needed.
_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_BLOCK = 1 << 15
"""Keys that are mixed at once: 256 kB, so that the dozen passes over a block stay in the cache."""


def _xxh64_of_8_bytes(keys: npt.NDArray[np.uint64]) -> Hashes:
    def mix(block: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        lane = _rotate(block * np.uint64(_PRIME_2), 31) * np.uint64(_PRIME_1)
        return _rotate(lane ^ np.uint64(SEED + _PRIME_5 + 8), 27) * np.uint64(_PRIME_1) + np.uint64(_PRIME_4)

    return _in_blocks(keys, mix)


def _xxh64_of_4_bytes(keys: npt.NDArray[np.uint32]) -> Hashes:
    def mix(block: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
        lane = block.astype(np.uint64) * np.uint64(_PRIME_1)
        return _rotate(lane ^ np.uint64(SEED + _PRIME_5 + 4), 23) * np.uint64(_PRIME_2) + np.uint64(_PRIME_3)

    return _in_blocks(keys, mix)


def _in_blocks(keys: npt.NDArray[Any], mix: Callable[[npt.NDArray[Any]], npt.NDArray[np.uint64]]) -> Hashes:
    hashes = np.empty(len(keys), np.uint64)
    for start in range(0, len(keys), _BLOCK):
        state = mix(keys[start : start + _BLOCK])
        state ^= state >> np.uint64(33)
        state *= np.uint64(_PRIME_2)
        state ^= state >> np.uint64(29)
        state *= np.uint64(_PRIME_3)
        state ^= state >> np.uint64(32)
        hashes[start : start + _BLOCK] = state
    return hashes.view(np.int64)


def _rotate(state: npt.NDArray[np.uint64], bits: int) -> npt.NDArray[np.uint64]:
    high = state << np.uint64(bits)
    high |= state >> np.uint64(64 - bits)
    return high


def _unsupported(received: str) -> InputError:
    return InputError(f"keys must be {_SUPPORTED}, got {received}: {_REMEDY}")


def _too_large(key: int) -> InputError:
    return InputError(f"integer keys must fit in 64 bits, signed, as Spark's long, got {key}: {_REMEDY}")


def _type_name(kind: type) -> str:
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _shorten(text: str, limit: int = 40) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
