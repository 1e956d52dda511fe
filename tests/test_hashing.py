"""hash_keys equals XXH64 of the bytes that Spark would hash, computed one key at a time."""

import datetime
import decimal
import struct

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from keyspread.errors import InputError
from keyspread.hashing import hash_keys

LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
EPOCH = datetime.datetime(1970, 1, 1)


def naive(key):
    """Return the hash of one key, computed the slow way."""
    if key is None:
        return 42
    if isinstance(key, bool | np.bool_):
        return signed(struct.pack("<i", int(key)))
    if isinstance(key, np.int8 | np.int16 | np.int32 | np.uint8 | np.uint16):
        return signed(struct.pack("<i", int(key)))
    if isinstance(key, int | np.int64 | np.uint32 | np.uint64):
        return signed(struct.pack("<q", int(key)))
    if isinstance(key, np.float32):
        return signed(struct.pack("<f", 0.0 if key == 0 else key) if key == key else bytes.fromhex("0000c07f"))
    if isinstance(key, float):
        return signed(struct.pack("<d", 0.0 if key == 0 else key) if key == key else bytes.fromhex("000000000000f87f"))
    if isinstance(key, str):
        return signed(key.encode())
    if isinstance(key, datetime.datetime):
        if key.tzinfo is not None:
            key = key.astimezone(datetime.UTC).replace(tzinfo=None)
        return signed(struct.pack("<q", (key - EPOCH) // datetime.timedelta(microseconds=1)))
    if isinstance(key, datetime.date):
        return signed(struct.pack("<i", (key - EPOCH.date()).days))
    return signed(bytes(key))


def signed(data):
    digest = xxhash.xxh64_intdigest(data, seed=42)
    return digest - 2**64 if digest >= 2**63 else digest


def views(name):
    """Return a type that pyarrow has from 16 on, as a list."""
    return [getattr(pa, name)()] if hasattr(pa, name) else []


def assert_hashes(keys, expected_of=None):
    hashes = hash_keys(keys)
    assert hashes.dtype == np.int64
    assert hashes.tolist() == [naive(key) for key in (keys if expected_of is None else expected_of)]


@given(st.lists(TEXTS | st.none()))
def test_text(keys):
    assert_hashes(keys)
    for kind in (pa.string(), pa.large_string(), *views("string_view")):
        assert_hashes(pa.array(keys, kind), keys)
    assert_hashes(pa.array(keys, pa.string()).dictionary_encode(), keys)
    assert_hashes(np.array(keys, object), keys)


@given(st.lists(st.binary() | st.none()))
def test_bytes(keys):
    assert_hashes(keys)
    for kind in (pa.binary(), pa.large_binary(), *views("binary_view")):
        assert_hashes(pa.array(keys, kind), keys)


@given(st.lists(LONGS))
def test_python_ints_are_longs(keys):
    assert_hashes(keys)
    assert_hashes(np.array(keys, np.int64), keys)
    assert_hashes(pa.array([*keys, None], pa.int64()), [*keys, None])


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.bool_])
def test_fixed_width(dtype):
    lowest, highest = (0, 1) if dtype is np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    keys = np.array([lowest, 0, 1, highest], dtype)
    assert_hashes(keys)
    assert_hashes(keys.astype(keys.dtype.newbyteorder(">")), keys)
    assert_hashes(keys[::2])
    assert_hashes(list(keys))
    assert_hashes(pa.array(keys), keys)
    assert_hashes(pa.array([keys[0], None, keys[3]], pa.from_numpy_dtype(dtype)), [keys[0], None, keys[3]])


@given(st.lists(st.floats()))
def test_doubles(keys):
    assert_hashes(keys)
    assert_hashes(np.array(keys), keys)
    assert_hashes(pa.array(keys, pa.float64()), keys)


@given(st.lists(st.floats(width=32)))
def test_floats(keys):
    singles = np.array(keys, np.float32)
    assert_hashes(singles)
    assert_hashes(pa.array(singles), singles)


def test_every_nan_is_one_and_both_zeros():
    strange = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    assert set(hash_keys(strange).tolist()) == {naive(float("nan"))}
    assert hash_keys(np.array([-0.0]))[0] == hash_keys(np.array([0.0]))[0]
    array = np.array([-0.0])
    hash_keys(array)
    assert np.signbit(array[0])  # the caller's array is unchanged


@given(st.lists(st.dates()))
def test_dates(keys):
    assert_hashes(keys)
    assert_hashes(pa.array([*keys, None], pa.date32()), [*keys, None])
    assert_hashes(pa.array([*keys, None], pa.date64()), [*keys, None])
    assert_hashes(np.array(keys, "datetime64[D]"), keys)


@given(st.lists(st.datetimes(timezones=st.none() | st.timezones())))
def test_timestamps(keys):
    assert_hashes(keys)


@given(st.lists(st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))))
def test_timestamps_of_every_unit(keys):
    for unit, whole in (("s", 10**6), ("ms", 10**3), ("us", 1), ("ns", 1)):
        rounded = [key.replace(microsecond=key.microsecond // whole * whole) for key in keys]
        assert_hashes(np.array(rounded, f"datetime64[{unit}]"), rounded)
        assert_hashes(pa.array([*rounded, None], pa.timestamp(unit, "Asia/Tokyo")), [*rounded, None])


def test_mixed_types_are_hashed_each_by_its_own():
    assert_hashes(["1", 1, 1.0, True, None, b"1", np.int32(1), datetime.date(2020, 1, 1)])
    assert len(set(hash_keys(["1", 1, 1.0, True]).tolist())) == 4


def test_dictionary_with_nulls_in_either_part_and_full_indices():
    values = [str(value) for value in range(127)] + [None]
    column = pa.DictionaryArray.from_arrays(pa.array([127, None, 5], pa.int8()), pa.array(values))
    assert hash_keys(column).tolist() == [42, 42, naive("5")]
    assert_hashes(pa.array([7, 8, 7]).dictionary_encode(), [7, 8, 7])


def test_slices_and_chunks():
    column = pa.array(["a", "b", None, "c"])
    assert_hashes(column.slice(1, 2), ["b", None])
    assert_hashes(pa.chunked_array([column, column.slice(3)]), ["a", "b", None, "c", "c"])
    assert_hashes(pa.chunked_array([["a"], ["b", "a"]]).dictionary_encode(), ["a", "b", "a"])


@pytest.mark.parametrize(
    "nothing",
    [
        [],
        (),
        np.array([]),
        np.array([], object),
        np.array([], np.uint64),
        pa.array([], pa.string()),
        pa.chunked_array([], pa.string()),
        pa.array([], pa.dictionary(pa.int32(), pa.string())),
    ],
)
def test_nothing_gives_nothing(nothing):
    assert hash_keys(nothing).tolist() == []
    assert hash_keys(nothing).dtype == np.int64


def test_other_containers():
    assert_hashes(("a", "b"))
    assert_hashes(range(3))
    assert_hashes((key for key in "ab"), ["a", "b"])
    assert_hashes(np.array(["a", "bb"]), ["a", "bb"])
    assert_hashes(np.array([b"a", b"bb"]), [b"a", b"bb"])
    assert_hashes([bytearray(b"a"), memoryview(b"b")], [b"a", b"b"])
    assert_hashes(np.ma.array([1, 2], mask=[False, True]), [1, None])
    assert_hashes(pa.array([b"ab", None], pa.binary(2)), [b"ab", None])


@pytest.mark.parametrize("name", ["dtype", "a"])
def test_a_table_is_refused_whatever_its_columns_are_called(name):
    pd = pytest.importorskip("pandas")
    table = pa.table({name: [1, 2]})
    for columns in (table, table.to_batches()[0]):
        with pytest.raises(InputError, match=f"got struct<{name}: int64>: convert"):
            hash_keys(columns)
    with pytest.raises(InputError, match=f"got struct<{name}: int64>: convert|got pandas.core.frame.DataFrame: pass"):
        hash_keys(pd.DataFrame({name: [1, 2]}))
    assert hash_keys(pd.DataFrame({name: [1, 2]})[name]).tolist() == hash_keys([1, 2]).tolist()


def test_pandas():
    pd = pytest.importorskip("pandas")
    assert_hashes(pd.Series(["a", None, float("nan")]), ["a", None, None])
    assert_hashes(pd.Series(["a", 1, pd.NA, 2.5]), ["a", 1, None, 2.5])
    assert_hashes(pd.Series(["a", "b", None], dtype="string"), ["a", "b", None])
    assert_hashes(pd.Series(["a", "b", "a"], dtype="category"), ["a", "b", "a"])
    assert_hashes(pd.Series([1, 2], dtype="int32"), [np.int32(1), np.int32(2)])
    assert_hashes(pd.Series([1, None], dtype="Int64"), [1, None])
    assert_hashes(pd.Series([1.5, float("nan")]), [1.5, None])
    assert_hashes(pd.Series(pd.to_datetime(["2020-01-01", None])), [datetime.datetime(2020, 1, 1), None])
    assert_hashes(pd.Series([], dtype=object), [])
    assert_hashes(pd.Index([1, 2]), [1, 2])
    assert_hashes([pd.Timestamp("2020-01-01", tz="Asia/Tokyo"), pd.NaT], [datetime.datetime(2019, 12, 31, 15), None])


def test_columns_that_speak_arrow():
    class Column:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.chunked_array([["a", None]]).__arrow_c_stream__(requested_schema)

    if int(pa.__version__.partition(".")[0]) >= 15:
        assert_hashes(Column(), ["a", None])
    else:
        with pytest.raises(
            InputError, match=r"needs pyarrow 15 or newer, this is 14\..*: upgrade pyarrow, or pass a list"
        ):
            hash_keys(Column())


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("abc", r"^hash_keys takes a list of keys, got a str: write \['abc'\]$"),
        (b"x", r"got a bytes: write \[b'x'\]$"),
        (5, "takes a list, array or column of keys, got int: pass a list"),
        (None, "got NoneType: pass a list"),
        ({"a": 1}, "got dict: pass a list"),
        (np.datetime64("2020"), r"got numpy\.datetime64: pass a list"),
        ([["a"]], "got list: convert the keys to string, or hash them in Spark with xxhash64$"),
        ([decimal.Decimal(1)], r"got decimal\.Decimal: convert"),
        (pa.array([[1]]), "got list<item: int64>: convert"),
        (pa.array([decimal.Decimal(1)]), r"got decimal128\(1, 0\): convert"),
        (pa.table({"a": [1]}), "got struct<a: int64>: convert"),
        (np.array([1j]), "got a NumPy array of complex128: convert"),
        (np.zeros((2, 2)), "one-dimensional array, got 2 dimensions"),
        ([2**63], "must fit in 64 bits, signed, as Spark's long, got 9223372036854775808: convert"),
        ([1, -(2**70)], "got -1180591620717411303424: convert"),
        (["a", "\ud800"], "must be valid Unicode, got .* pass bytes"),
        (np.array([2**50], "datetime64[10s]"), "64 bits of microseconds, got "),
        (np.array(["300000-01-01"], "datetime64[s]"), "64 bits of microseconds, got 300000-01-01T00:00:00"),
    ],
)
def test_what_cannot_be_hashed_is_named(keys, message):
    with pytest.raises(InputError, match=message) as raised:
        hash_keys(keys)
    assert "\n" not in str(raised.value)


def test_a_wrong_type_lists_what_is_supported():
    with pytest.raises(InputError, match="keys must be str, bytes, int, float, bool, date, datetime or None"):
        hash_keys([object()])
