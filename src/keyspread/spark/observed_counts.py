"""Counts per item as an observed value: a text that Spark writes without shared state.

Spark may read one observed value in two threads at once (over Connect: the query's own and a listener's). Its JSON
writer cannot bear that: with 2,000 workers on Spark 4.0, 68 of 400 queries failed. A cast to text has no state, but
even then the row that carries it is shared, and 1 of 400 arrived damaged. So a reader checks what it gets.
"""

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

from keyspread.errors import KeyspreadError

_NULL = "\\N"
# Spark writes [{item, count}, …], or square brackets for all if it is told to write like its oldest versions.
_ESCAPES = {"\\": "\\\\", "}": "\\)", "]": "\\>"}
_ITEM = r"[{\[]([^}\]]*), ([0-9.E]+)[}\]]"
_ITEMS = re.compile(f"[#=]\\[(?:{_ITEM}(?:, {_ITEM})*)?\\]", re.DOTALL)
_EACH = re.compile(f"{_ITEM}(?:, |$)", re.DOTALL)


def top_items(item: Column, many: int, tracked: int, *, is_text: bool) -> Column:
    """Return an aggregate that counts the `many` most frequent items of a column; read its value with `read_counts`."""
    if is_text:
        for written, escaped in _ESCAPES.items():
            item = F.replace(item, F.lit(written), F.lit(escaped))
        item = F.coalesce(item, F.lit(_NULL))
    counted = F.call_function("approx_top_k", item, F.lit(many), F.lit(max(tracked, many)))
    return F.concat(F.lit("=" if is_text else "#"), counted.cast("string"))


def histogram(item: Column, many: int) -> Column:
    """Return the same of a column with at most `many` different numbers, where Spark has no `approx_top_k`.

    After the merge of two parts, Spark may say 2.9999999999 for 3, and may have a number twice.
    """
    counted = F.call_function("histogram_numeric", item.cast("double"), F.lit(max(many, 2)))  # Spark takes no less
    return F.concat(F.lit("#"), counted.cast("string"))


def read_counts(text: str | None) -> list[tuple[str | None, float]]:
    """Return each item as text and its count, in Spark's order. Raise an error if the text is damaged.

    >>> read_counts("#[{3, 17}, {null, 2}]")
    [('3', 17.0), (None, 2.0)]
    >>> read_counts("=[{a, {b\\\\), 17}, {null, 3}, {\\\\N, 2}]")
    [('a, {b}', 17.0), ('null', 3.0), (None, 2.0)]
    """
    if text is None:
        return []
    if not _ITEMS.fullmatch(text):
        raise damaged()
    read = _number if text[0] == "#" else _text
    return [(read(item), float(count)) for item, count in _EACH.findall(text[2:-1])]


def damaged() -> KeyspreadError:
    """Return the error of a reader that got something else than what Spark counted."""
    return KeyspreadError(
        "Spark returned the counts of this watch damaged, because two of its threads read them at once; the rows "
        "themselves are right. Count them with keyspread.spark.balance, or run them again with a new watch."
    )


def _number(item: str) -> str | None:
    return None if item in ("null", "") else item


def _text(item: str) -> str | None:
    if item == _NULL:
        return None
    return re.sub(r"\\(.)", lambda found: {")": "}", ">": "]"}.get(found[1], found[1]), item)
