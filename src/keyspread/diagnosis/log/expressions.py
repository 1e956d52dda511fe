"""Read the expressions in the text of a plan: `hashpartitioning(customer#2L, 1#825, 16)` -> the key columns.

Turn an expression of a plan back into SQL, if the plan shows it exactly.

A plan prints texts and dates without quotes: `coalesce(name#3, none)` may mean the text 'none' or nothing that exists,
`concat(a#1, -, b#2)` has the text '-' in it, and `concat(a#1, 007)` the text '007'. So an expression is parsed, and
whatever could be a text is refused: a line of code that computes another key would be worse than none.
"""

import ast
import itertools
import re

# A column of event time has its watermark behind the number: at#12-T600000ms.
_ATTRIBUTE = re.compile(r"#\d+L?(?:-T\d+ms)?")
_PARTITIONING = re.compile(r"(?:gpu)?(hash|range)partitioning\(", re.IGNORECASE)
_ORDER = re.compile(r"\s+(?:ASC|DESC)(?:\s+NULLS\s+(?:FIRST|LAST))?$", re.IGNORECASE)
# The methods of a Column; ascending with nulls first is what a plain name means.
_ORDER_METHODS = {
    "DESC": "desc",
    "DESC NULLS LAST": "desc",
    "DESC NULLS FIRST": "desc_nulls_first",
    "ASC NULLS LAST": "asc_nulls_last",
}
_LITERAL = re.compile(r"-?\d+(?:\.\d+)?[A-Z]*|true|false|null|'.*'|\"[^\"]*\"")
# Casts to the type of the other side of a join, and -0.0 made equal to 0.0.
_WIDER = r"(?:smallint|int|bigint|float|double|decimal\(\d+,\s?\d+\)|string|timestamp\w*)"
_WRAPPED = re.compile(rf"cast\((.+) as {_WIDER}\)|(?:knownfloatingpointnormalized|normalizenanandzero)\((.+)\)")
# `NOT flag#1`, `-amount#2`, `a#1 LIKE b#2`: no brackets, and still no column.
_NEGATED = re.compile(r"(?:NOT\s|[-~])|.*#\d+L?\s")
_SHOWN = 40
"""A longer definition of a key column is left out: its name says more."""


def without_ids(text: str) -> str:
    """Return an expression as its author wrote it: `(customer#2L % 50)` -> `(customer % 50)`."""
    return _ATTRIBUTE.sub("", text)


def split_arguments(text: str) -> list[str]:
    """Split at the commas outside of brackets and quotes: `a, f(b, c)` -> `a` and `f(b, c)`."""
    parts, depth, start, quote = [], 0, 0, ""
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'`":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def bracketed(text: str, start: int) -> str:
    """Return what is between the bracket at `start` and the one that closes it, or the rest if none does."""
    depth = 0
    for place in range(start, len(text)):
        if text[place] in "([":
            depth += 1
        elif text[place] in ")]":
            depth -= 1
            if depth == 0:
                return text[start + 1 : place]
    return text[start + 1 :]


def partitioning(text: str) -> tuple[str, list[str], int | None]:
    """Return how an exchange distributes rows (hash, range, round robin, single, ''), by what, to how many."""
    match = _PARTITIONING.search(text)
    if match is None:
        lowered = text.lower()
        kinds = (("singlepartition", "single"), ("roundrobinpartitioning", "round robin"))
        return next((kind for word, kind in kinds if word in lowered), ""), [], None
    arguments = split_arguments(bracketed(text, match.end() - 1))
    number = None
    if arguments and arguments[-1].isdigit():
        number = int(arguments.pop())
    return match[1].lower(), [_ORDER.sub("", argument) for argument in arguments], number


def sort_orders(text: str) -> dict[str, str]:
    """Return the order of each expression of a range exchange, if it is not the default: `desc`, `asc_nulls_last`."""
    match = _PARTITIONING.search(text)
    orders = {}
    for argument in split_arguments(bracketed(text, match.end() - 1)) if match else ():
        order = _ORDER.search(argument)
        words = " ".join(order[0].upper().split()) if order else ""
        if words in _ORDER_METHODS:
            orders[_ORDER.sub("", argument)] = _ORDER_METHODS[words]
    return orders


def bare(expression: str) -> str:
    """Return the column within what Spark adds to it by itself: `cast(customer#1 as bigint)` -> `customer#1`."""
    while match := _WRAPPED.fullmatch(expression.strip()):
        inner = match[1] or match[2]
        if not is_attribute(inner) and not _WRAPPED.fullmatch(inner):
            break
        expression = inner
    return expression.strip()


def is_literal(expression: str) -> bool:
    """Tell whether an expression is a constant, which is no key."""
    return _LITERAL.fullmatch(expression.strip()) is not None


def is_attribute(expression: str) -> bool:
    """Tell whether an expression is one column: `customer#2L`, also with blanks and letters of any script."""
    text = expression.strip()
    if _NEGATED.match(text):
        return False
    return re.fullmatch(rf"[^()\[\]+*/%<>=,]+{_ATTRIBUTE.pattern}", text) is not None


def without_null_safety(arguments: list[str]) -> tuple[list[str], list[bool]]:
    """Return join keys as their author wrote them, and which of them are null-safe.

    `a <=> b` is planned as coalesce(a, 0) and isnull(a).
    """
    tests = (re.fullmatch(r"isnull\((.+)\)", argument.strip()) for argument in arguments)
    tested = {match[1] for match in tests if match}
    keys, null_safe = [], []
    for argument in arguments:
        match = re.fullmatch(r"coalesce\((.+), [^,]*\)", argument.strip())
        if match and match[1] in tested:
            keys.append(match[1])
            null_safe.append(True)
        elif not (argument.strip().startswith("isnull(") and argument.strip()[7:-1] in keys):
            keys.append(argument)
            null_safe.append(False)
    return keys, null_safe


def definitions(project: str) -> dict[str, str]:
    """Return the columns that a projection defines: `Project [(a#1 % 50) AS b#2]` -> {`b#2`: `(a#1 % 50)`}."""
    start = project.find("[")
    if start < 0 or " AS " not in project:
        return {}
    defined = {}
    for part in split_arguments(bracketed(project, start)):
        expression, middle, name = part.rpartition(" AS ")
        if middle and is_attribute(name):
            defined[name.strip()] = expression.strip()
    return defined


def unwrapped(text: str) -> str:
    """Return an expression without brackets around the whole of it."""
    text = text.strip()
    return text[1:-1] if text.startswith("(") and bracketed(text, 0) == text[1:-1] else text


def shown(name: str, definition: str | None) -> str:
    """Return a key for people: its name, with its definition if that is short and more than another name."""
    plain = without_ids(name)
    if definition is None or is_attribute(definition):
        return plain
    text = unwrapped(without_ids(definition))
    if plain.startswith("_"):  # Spark made this name up
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
    return plain if len(text) > _SHOWN or plain == text else f"{plain} ({text})"


# Functions of columns alone: a number among their arguments may be a text.
_OF_COLUMNS = {"abs", "ceil", "coalesce", "concat", "crc32", "floor", "greatest", "isnotnull", "isnull", "least"}
_OF_COLUMNS |= {"length", "lower", "ltrim", "md5", "reverse", "rtrim", "sha1", "soundex", "trim", "upper"}
_OF_COLUMNS |= {"day", "dayofmonth", "dayofweek", "dayofyear", "hour", "minute", "month", "quarter", "second"}
_OF_COLUMNS |= {"weekofyear", "year"}
# Functions whose arguments behind the first are numbers. What takes a pattern or a unit as text is not among them, nor
# what a plan prints in another form than SQL takes: `hash` with its seed, `if (a) b else c`.
_WITH_NUMBERS = {"date_add", "date_sub", "pmod", "round", "substr", "substring"}
_TYPES = {"bigint", "int", "smallint", "tinyint", "string", "double", "float", "date", "timestamp", "boolean"}
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Mod)
_COMPARISONS = (ast.Eq, ast.Lt, ast.Gt, ast.LtE, ast.GtE)
_COLUMN, _TYPE = "column_of_the_plan_", "type_of_the_plan_"
_NAMED = re.compile(r"(?<![\w.])[^\W\d][\w.]*#\d++L?+(?:-T\d+ms)?+(?![\w.])")
_WORD = re.compile(r"<=>|(?<![<>=])=(?!=)|\b(?:AND|OR|NOT)\b", re.IGNORECASE)
_WORDS = {"<=>": "==", "=": "==", "and": "and", "or": "or", "not": "not"}
# What Python reads in another way than SQL, or reads at all: dates, numbers with letters or leading zeros, a comma
# without a value, comments, the rest of a column.
_UNCLEAR = re.compile(
    r"\d{4}-\d\d|(?<![\w.])(?!(?:0|[1-9]\d*)(?:\.\d+)?(?![\w.]))\d|,\s*\)|\.\d+[^\W\d]|--|#|\\|-T\d"
    rf"|{_COLUMN}|{_TYPE}"
)


def quoted(name: str) -> str:
    """Return the name of a column as SQL takes it, with backticks where it needs them."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else f"`{name.replace('`', '``')}`"


def as_sql(expression: str) -> str | None:
    """Return `upper(name#3)` as `upper(name)`; None if the plan does not show exactly what is computed."""
    names = [quoted(name.partition("#")[0]) for name in _NAMED.findall(expression)]
    if _UNCLEAR.search(_NAMED.sub("c", expression)):
        return None
    numbers = itertools.count()
    text = _NAMED.sub(lambda _: f"{_COLUMN}{next(numbers)}_", expression.strip())
    # Expressions of SQL, CASE aside, have the grammar of Python but for a few words.
    source = re.sub(r" as (\w+)\)", rf", {_TYPE}\1)", text)
    source = re.sub(
        r"<=>|(?<![<>=])=(?!=)|\b(?:AND|OR|NOT)\b", lambda word: _WORDS[word[0].lower()], source, flags=re.I
    )
    try:
        exact = _is_exact(ast.parse(source, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return re.sub(rf"{_COLUMN}(\d+)_", lambda column: names[int(column[1])], text) if exact else None


def _is_exact(node: ast.expr, number: bool = False) -> bool:
    """Tell whether nothing in an expression may be a text. A number is read only where nothing else can be meant."""
    match node:
        case ast.Name(name):
            return name.startswith(_COLUMN)
        case ast.Constant(value):
            return number and type(value) in (int, float)
        case ast.UnaryOp(ast.USub(), operand):
            return _is_exact(operand, number)
        case ast.UnaryOp(ast.Not(), operand):
            return _is_exact(operand)
        case ast.BoolOp(_, values):
            return all(map(_is_exact, values))
        case ast.Compare(left, [sign], [right]):  # name = 7 may compare with the text '7'
            return isinstance(sign, _COMPARISONS) and _is_exact(left) and _is_exact(right)
        case ast.BinOp(left, sign, right):
            has_column = any(isinstance(part, ast.Name) for part in ast.walk(node))
            return has_column and isinstance(sign, _ARITHMETIC) and _is_exact(left, True) and _is_exact(right, True)
        case ast.Call(ast.Name("cast"), [value, ast.Name(kind)], []):
            return kind.removeprefix(_TYPE) in _TYPES and _is_exact(value)
        case ast.Call(ast.Name(function), [first, *more], []):
            numbers = function in _WITH_NUMBERS
            known = numbers or function in _OF_COLUMNS
            return known and _is_exact(first) and all(_is_exact(argument, numbers) for argument in more)
    return False
