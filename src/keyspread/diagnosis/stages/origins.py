"""Where a key column comes from: a column as it was read, or an expression of such columns.

A name alone says little: `withColumn("customer", upper("customer"))` has the name of what was read. Spark numbers every
column, so the plan shows which it is, as long as it is not cut.
"""

import re

from keyspread.diagnosis.log import expressions
from keyspread.diagnosis.log.plan_tree import Node
from keyspread.diagnosis.log.sql import as_sql
from keyspread.diagnosis.stages.key_parts import CUT, KeyPart

_ATTRIBUTE = re.compile(r"[^\s(),\[\]]+#\d+L?")
# Operators that make columns without a line `… AS name#1` in the plan.
_MAKERS = re.compile(
    r"Generate|Expand|Window|Aggregate|Python|MapIn|FlatMap|Map(?:Partitions|Elements)|Serialize|State"
)
_DEPTH = 100


def origins(exchange: Node, key: tuple[KeyPart, ...]) -> tuple[str, ...]:
    """Return for each column of a key what to count in the data: a column, SQL, or '' if the plan does not show it."""
    below = [node for node in exchange.below() if node is not exchange]
    defined: dict[str, str] = {}
    for node in below:
        for name, definition in expressions.definitions(node.text).items():
            defined.setdefault(name, definition)
    return tuple(_origin(part.expression, defined, below) for part in key)


def sources(exchange: Node, consumer: Node | None) -> tuple[str, ...]:
    """Return what two operators must have in common to be one: the keys of a join, and the tables below.

    The numbers of columns differ from query to query, and so may the files of a table.
    """
    top = exchange if consumer is None else consumer
    leaves = {_table(node) for node in top.below() if not node.children}
    start = top.text.find("[") if consumer is not None and "Join" in consumer.name else -1
    keys = expressions.split_arguments(top.text[start:])[:3] if start >= 0 else []
    return (*map(expressions.without_ids, keys), *sorted(leaves))


def _table(leaf: Node) -> str:
    start = leaf.text.find("[")
    columns = expressions.bracketed(leaf.text, start) if start >= 0 else ""
    return f"{leaf.name.strip()} {expressions.without_ids(columns)}".strip()


def _origin(expression: str, defined: dict[str, str], below: list[Node]) -> str:
    for _ in range(_DEPTH):  # a column may be renamed several times
        if expression not in defined:
            break
        expression = defined[expression]
    if expressions.is_attribute(expression):
        return expressions.without_ids(expression) if _is_read(expression, defined, below) else ""
    used = _ATTRIBUTE.findall(expression)
    if not used or not all(_is_read(attribute, defined, below) for attribute in used):
        return ""
    return as_sql(expressions.unwrapped(expression)) or ""


def _is_read(attribute: str, defined: dict[str, str], below: list[Node]) -> bool:
    """Tell whether a column is one that was read from the data, and nothing that was made of it."""
    if attribute in defined:
        return False
    scans = [node for node in below if not node.children and "Scan" in node.name]
    shown = re.compile(rf"(?<![^\s,\[(]){re.escape(attribute)}(?![\w-])")
    if any(shown.search(scan.text) for scan in scans):
        return True
    # A table of many columns is cut: then no operator above may have made the column.
    others = [node for node in below if node.children]
    hidden = any(CUT.search(node.text) or _MAKERS.search(node.name) for node in others)
    return any(CUT.search(scan.text) for scan in scans) and not hidden
