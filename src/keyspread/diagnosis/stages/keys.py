"""The key of an exchange or of a join: what its columns are called, how they are computed, and how to write them.

Where a key column comes from: a column as it was read, or an expression of such columns.

A name alone says little: `withColumn("customer", upper("customer"))` has the name of what was read. Spark numbers every
column, so the plan shows which it is, as long as it is not cut.

The lines of code that join by the same keys as a join of a plan.
"""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from keyspread.diagnosis.log import expressions
from keyspread.diagnosis.log.application import Node
from keyspread.diagnosis.log.expressions import as_sql, quoted

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
            return quoted_text(self.name)
        code = f"F.expr({quoted_text(self.sql)})"
        return f"{code}.alias({quoted_text(self.name)})" if self.has_name else code

    def sorted_source(self) -> str:
        """Return the column as an argument of orderBy, in its direction and with its nulls where they were."""
        if self.is_computed and self.sql:
            column = f"F.expr({quoted_text(self.sql)})"
        elif self.order:
            column = f"F.col({quoted_text(self.name if '.' not in self.name else quoted(self.name))})"
        else:
            return self.source()
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
        defined = expressions.definitions(node.text) | defined
    return defined


def key_source(key: Sequence[KeyPart]) -> str:
    """Return a key as Python source: one column or a list, or a variable if the log does not show it exactly."""
    if not key or not all(part.is_known for part in key):
        return PLACEHOLDER
    return listed([part.source() for part in key])


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
            defined.setdefault(name, definition)  # a plan may have thousands of operators
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


_NO_CONDITION = re.compile(r"(?:Gpu)?Build(?:Left|Right)|true|false")


@dataclass(frozen=True)
class JoinSource:
    """Two DataFrames and what they are joined on, as Python source."""

    left: str
    right: str
    pairs: tuple[tuple[str, str], ...]
    has_condition: bool
    null_safe: tuple[bool, ...]
    """For each pair, whether null equals null."""
    explanation: str
    """What the variables in it mean, '' if there are only left and right."""
    made: tuple[str, ...]
    """Columns that only the join needs."""

    @property
    def names(self) -> str:
        """Return the keys as Spark's `on` takes them, '' if the two sides have different names."""
        same = all(left == right for left, right in self.pairs)
        return listed([quoted_text(left) for left, _ in self.pairs]) if same else ""

    def spark(self, broadcast: str, how: str) -> str:
        """Return Spark's own join, with one side broadcast; '' if that takes more than a line."""
        frames = {"left": self.left, "right": self.right}
        frames[broadcast] = f"F.broadcast({frames[broadcast]})"
        on = "" if self.has_condition or any(self.null_safe) else self.names
        if not on and (self.left, self.right) != ("left", "right"):
            return ""
        on = on or self._condition()
        return f'{frames["left"]}.join({frames["right"]}, {on}, "{how}"){self._drop()}'

    def _condition(self) -> str:
        tests = [
            ("{}.eqNullSafe({})" if safe else "{} == {}").format(_column("left", left), _column("right", right))
            for (left, right), safe in zip(self.pairs, self.null_safe, strict=True)
        ]
        tests += ["condition"] * self.has_condition
        return tests[0] if len(tests) == 1 else " & ".join(f"({test})" if "==" in test else test for test in tests)

    def keyspread(self, how: str) -> str:
        """Return the join by a plan; '' if null equals null in some pairs only, which it cannot do."""
        if len(set(self.null_safe)) > 1:
            return ""
        pairs = (f"({quoted_text(left)}, {quoted_text(right)})" for left, right in self.pairs)
        on = self.names or f"[{', '.join(pairs)}]"
        more = [f'how="{how}"'] * (how != "inner")
        more += ["condition=condition"] * self.has_condition + ["null_safe=True"] * self.null_safe[0]
        return f"keyspread.spark.join({', '.join([self.left, self.right, f'on={on}', *more])}){self._drop()}"

    def _drop(self) -> str:
        return f".drop({', '.join(map(quoted_text, self.made))})" if self.made else ""


def join_source(join: Node) -> JoinSource | None:
    """Return how to write the join of a plan, None if the plan does not show both sides and all keys."""
    sides = _sides(join)
    if sides is None:
        return None
    (left, right), condition, null_safe = sides
    new, made = new_names(join), list[str]()
    pairs, unknown = [], []
    frames = {"left": "left", "right": "right"}
    for own, other in zip(left, right, strict=True):
        if own.has_name and other.has_name:
            pairs.append((own.name, other.name))
            continue
        name = next(new)
        made.append(name)
        pairs.append((name, name))
        number = "" if len(made) == 1 else str(len(made))
        for side, part in (("left", own), ("right", other)):
            sql = quoted(part.name) if part.has_name else part.sql
            source = f"F.expr({quoted_text(sql)})" if sql else f"{side}_key{number}"
            if not sql:
                unknown.append(f"Replace {source} by {part.shown}, which the log does not show exactly")
            frames[side] += f".withColumn({quoted_text(name)}, {source})"
    explanation = f" ({'; '.join(unknown)}.)" if unknown else ""
    if condition:
        explanation += " (condition is the further condition of the join.)"
    left_frame, right_frame = frames.values()
    return JoinSource(left_frame, right_frame, tuple(pairs), bool(condition), null_safe, explanation, tuple(made))


def new_names(top: Node | None) -> Iterator[str]:
    """Yield names for columns that no operator below has."""
    texts = "" if top is None else " ".join(node.text for node in top.below())
    for number in itertools.count(1):
        name = "keyspread_key" if number == 1 else f"keyspread_key{number}"
        if f"{name}#" not in texts:
            yield name


_Sides = tuple[tuple[tuple[KeyPart, ...], tuple[KeyPart, ...]], str, tuple[bool, ...]]


def _sides(join: Node) -> _Sides | None:
    """Return the keys of both sides, the further condition, and where null equals null, None if the text is cut."""
    start = join.text.find("[")
    parts = expressions.split_arguments(join.text[start:]) if start >= 0 else []
    if len(parts) < 3 or len(join.children) != 2 or not (parts[0][:1] == parts[1][:1] == "["):
        return None
    keys: list[tuple[KeyPart, ...]] = []
    safe: list[bool] = []
    for text, child in zip(parts, join.children, strict=False):
        arguments, flags = expressions.without_null_safety(expressions.split_arguments(text[1:-1]))
        if any(CUT.fullmatch(argument) for argument in arguments) or (keys and flags != safe):
            return None
        safe, side = flags, Node("", "", {}, None, [child])
        keys.append(key_parts(arguments, definitions_below(side, through_exchanges=True)))
    if not keys[0] or not len(keys[0]) == len(keys[1]) == len(safe):
        return None
    # Behind the type of the join there is the side that is built, and whatever else is a condition.
    rest = [part for part in parts[3:] if not _NO_CONDITION.fullmatch(part)]
    return (keys[0], keys[1]), ", ".join(rest), tuple(safe)


def _column(frame: str, name: str) -> str:
    plain = name if "." not in name and "`" not in name else f"`{name.replace('`', '``')}`"
    return f"{frame}[{quoted_text(plain)}]"


def listed(sources: Sequence[str]) -> str:
    """Return one piece of source as it is, several as a list."""
    return sources[0] if len(sources) == 1 else f"[{', '.join(sources)}]"


def quoted_text(name: str) -> str:
    """Return a text as Python source."""
    return json.dumps(name, ensure_ascii=False)
