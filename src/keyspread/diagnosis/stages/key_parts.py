"""The key of an exchange or of a join: what its columns are called, how they are computed, and how to write them."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from keyspread.diagnosis.log import expressions
from keyspread.diagnosis.log.plan_tree import Node
from keyspread.diagnosis.log.sql import as_sql, quoted

PLACEHOLDER = "key"
"""The variable that stands for a key which the log does not show exactly."""
# Columns that Spark makes: no DataFrame of a user has them.
_GENERATED = re.compile(r"_.*|pythonUDF\d+|gen_attr_\d+")
_GROUPING_SETS = "spark_grouping_id"
CUT = re.compile(r"\.\.\. \d+ more fields")
_WINDOWS = ("window", "session_window")


@dataclass(frozen=True)
class KeyPart:
    """One column of a key."""

    name: str
    shown: str
    """For people: `customer`, `bucket (customer % 50)`."""
    sql: str
    """The name if the column is read as it is, how it is computed otherwise; '' if the log does not show it."""
    has_name: bool
    """Whether a DataFrame of the user has, or may have, a column of this name."""
    is_computed: bool
    """Whether the plan computes it, rather than reading it as it is."""
    expression: str = ""
    """The column as the plan shows it, with its number."""
    order: str = ""
    """The method of a Column for the order of a sort, '' for ascending with nulls first: `desc`."""

    @property
    def is_time_window(self) -> bool:
        """Tell whether it is a window of event time, which keyspread takes as `window=`, not as a key."""
        return self.name in _WINDOWS and self.is_computed

    @property
    def is_known(self) -> bool:
        """Tell whether a line of code can name or compute it."""
        return self.has_name or bool(self.sql)

    def source(self) -> str:
        """Return the column as Python source: its name, or the expression that computes it."""
        if not self.is_computed or not self.sql:
            return json.dumps(self.name, ensure_ascii=False)
        code = f"F.expr({json.dumps(self.sql, ensure_ascii=False)})"
        return f"{code}.alias({json.dumps(self.name, ensure_ascii=False)})" if self.has_name else code

    def sorted_source(self) -> str:
        """Return the column as an argument of orderBy, in its direction and with its nulls where they were."""
        if self.is_computed and self.sql:
            column = f"F.expr({json.dumps(self.sql, ensure_ascii=False)})"
        elif not self.order:
            return self.source()
        else:
            plain = self.name if "." not in self.name else quoted(self.name)
            column = f"F.col({json.dumps(plain, ensure_ascii=False)})"
        return f"{column}.{self.order}()" if self.order else column


def key_parts(
    arguments: Iterable[str], defined: dict[str, str], orders: Mapping[str, str] | None = None
) -> tuple[KeyPart, ...]:
    """Return the columns among these expressions; constants are no keys. `orders` are those of a sort."""
    parts = []
    for written in expressions.without_null_safety(list(arguments))[0]:
        argument = expressions.bare(written)
        meaning = defined.get(argument)
        if expressions.is_literal(argument) or (meaning is not None and expressions.is_literal(meaning)):
            continue
        name = expressions.without_ids(argument)
        if name == _GROUPING_SETS:
            continue
        if CUT.fullmatch(name):  # Spark prints 25 columns at most: these are part of the key, and not known
            parts.append(KeyPart(name, name, "", has_name=False, is_computed=True))
            continue
        computed = meaning if meaning is not None and not expressions.is_attribute(meaning) else argument
        is_computed = not expressions.is_attribute(computed)
        sql = (as_sql(expressions.unwrapped(computed)) or "") if is_computed else name
        window = name in _WINDOWS and is_computed  # a column of the result of groupBy(window(…)) alone
        has_name = expressions.is_attribute(argument) and not window and not _GENERATED.fullmatch(name)
        order = (orders or {}).get(written, "")
        parts.append(KeyPart(name, expressions.shown(argument, meaning), sql, has_name, is_computed, argument, order))
    return tuple(parts)


def definitions_below(start: Node, *, through_exchanges: bool = False) -> dict[str, str]:
    """Return the columns that are computed below an operator, along single children, down to the next exchange or scan.

    The key of a join is computed before the exchange that feeds it: `through_exchanges` looks behind one.
    """
    defined: dict[str, str] = {}
    node, exchanges = start, int(through_exchanges)
    while len(node.children) == 1:
        node = node.children[0]
        if "Scan" in node.name:
            break
        if node.is_exchange:
            exchanges -= 1
            if exchanges < 0:
                break
        for name, definition in expressions.definitions(node.text).items():
            defined.setdefault(name, definition)
    return defined


def key_source(key: Sequence[KeyPart]) -> str:
    """Return a key as Python source: one column or a list, or a variable if the log does not show it exactly."""
    if not key or not all(part.is_known for part in key):
        return PLACEHOLDER
    return key[0].source() if len(key) == 1 else f"[{', '.join(part.source() for part in key)}]"


def sort_source(key: Sequence[KeyPart]) -> str:
    """Return a key as arguments of orderBy, or a variable if the log does not show it exactly."""
    if not key or not all(part.is_known for part in key):
        return PLACEHOLDER
    return ", ".join(part.sorted_source() for part in key)


def what_placeholder_means(key: Sequence[KeyPart], verb: str = "groups") -> str:
    """Return a sentence on the variable that `key_source` may contain, '' if it does not."""
    if key_source(key) != PLACEHOLDER:
        return ""
    shown = ", ".join(f"{part.shown} {part.order}".strip() for part in key) or "see the plan"
    why = "the plan cuts it" if any(CUT.fullmatch(part.name) for part in key) else "a plan shows texts without quotes"
    return (
        f" (Replace {PLACEHOLDER} by what the job {verb} by, which the log does not show exactly, as {why}: {shown}.)"
    )
