"""The lines of code that join by the same keys as a join of a plan."""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from keyspread.diagnosis.log import expressions
from keyspread.diagnosis.log.plan_tree import Node
from keyspread.diagnosis.log.sql import quoted
from keyspread.diagnosis.stages.key_parts import CUT, KeyPart, definitions_below, key_parts

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
    made: tuple[str, ...] = ()
    """Columns that only the join needs."""

    @property
    def on(self) -> str:
        """Return the argument `on` of keyspread's join: names, or pairs of names."""
        if all(left == right for left, right in self.pairs):
            return _listed([_quoted(left) for left, _ in self.pairs])
        return f"[{', '.join(f'({_quoted(left)}, {_quoted(right)})' for left, right in self.pairs)}]"

    def spark(self, broadcast: str, how: str) -> str:
        """Return Spark's own join, with one side broadcast; '' if that takes more than a line."""
        frames = {"left": self.left, "right": self.right}
        frames[broadcast] = f"F.broadcast({frames[broadcast]})"
        plain = all(left == right for left, right in self.pairs) and not self.has_condition and not any(self.null_safe)
        if not plain and (self.left, self.right) != ("left", "right"):
            return ""
        on = _listed([_quoted(left) for left, _ in self.pairs]) if plain else self._condition()
        return f'{frames["left"]}.join({frames["right"]}, {on}, "{how}"){self._drop()}'

    def _condition(self) -> str:
        tests = [
            ("{}.eqNullSafe({})" if safe else "{} == {}").format(_column("left", left), _column("right", right))
            for (left, right), safe in zip(self.pairs, self.null_safe, strict=True)
        ]
        tests += ["condition"] * self.has_condition
        return tests[0] if len(tests) == 1 else " & ".join(f"({one})" if "==" in one else one for one in tests)

    def keyspread(self, how: str) -> str:
        """Return the join by a plan; '' if null equals null in some pairs only, which it cannot do."""
        if len(set(self.null_safe)) > 1:
            return ""
        more = [f'how="{how}"'] * (how != "inner")
        more += ["condition=condition"] * self.has_condition + ["null_safe=True"] * self.null_safe[0]
        return f"keyspread.spark.join({', '.join([self.left, self.right, f'on={self.on}', *more])}){self._drop()}"

    def _drop(self) -> str:
        return f".drop({', '.join(map(_quoted, self.made))})" if self.made else ""


def cogroup_source(key: Sequence[KeyPart]) -> JoinSource | None:
    """Return how to write a cogroup by this key, None if a column of it has no name."""
    if not key or not all(part.has_name for part in key):
        return None
    pairs = tuple((part.name, part.name) for part in key)
    return JoinSource("left", "right", pairs, False, (False,) * len(pairs), "")


def join_source(join: Node) -> JoinSource | None:
    """Return how to write the join of a plan, None if the plan does not show both sides and all keys."""
    sides = _sides(join)
    if sides is None:
        return None
    (left, right), condition, null_safe = sides
    made = new_names(join)
    pairs, computed = [], 0
    names: list[str] = []
    frames = {"left": "left", "right": "right"}
    unknown = []
    for one, other in zip(left, right, strict=True):
        if one.has_name and other.has_name:
            pairs.append((one.name, other.name))
            continue
        name = next(made)
        computed += 1
        number = "" if computed == 1 else str(computed)
        names.append(name)
        pairs.append((name, name))
        for side, part in (("left", one), ("right", other)):
            sql = quoted(part.name) if part.has_name else part.sql
            source = f"F.expr({_quoted(sql)})" if sql else f"{side}_key{number}"
            if not sql:
                unknown.append(f"Replace {source} by {part.shown}, which the log does not show exactly")
            frames[side] += f".withColumn({_quoted(name)}, {source})"
    explanation = f" ({'; '.join(unknown)}.)" if unknown else ""
    if condition:
        explanation += " (condition is the further condition of the join.)"
    return JoinSource(
        frames["left"], frames["right"], tuple(pairs), bool(condition), null_safe, explanation, tuple(names)
    )


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
        if any(CUT.fullmatch(one) for one in arguments) or (keys and flags != safe):
            return None
        safe = flags
        top = Node("", "", {}, None, [child])
        keys.append(key_parts(arguments, definitions_below(top, through_exchanges=True)))
    if not keys[0] or not len(keys[0]) == len(keys[1]) == len(safe):
        return None
    # Behind the type of the join there is the side that is built, and whatever else is a condition.
    rest = [part for part in parts[3:] if not _NO_CONDITION.fullmatch(part)]
    return (keys[0], keys[1]), ", ".join(rest), tuple(safe)


def _column(frame: str, name: str) -> str:
    plain = name if "." not in name and "`" not in name else f"`{name.replace('`', '``')}`"
    return f"{frame}[{_quoted(plain)}]"


def _listed(sources: list[str]) -> str:
    return sources[0] if len(sources) == 1 else f"[{', '.join(sources)}]"


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
