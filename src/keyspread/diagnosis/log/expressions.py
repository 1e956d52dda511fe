"""Read the expressions in the text of a plan: `hashpartitioning(customer#2L, 1#825, 16)` -> the key columns.

Turn an expression of a plan back into SQL, if the plan shows it exactly.

A plan prints texts and dates without quotes: `coalesce(name#3, none)` may mean the text 'none' or nothing that exists,
`concat(a#1, -, b#2)` has the text '-' in it, and `concat(a#1, 007)` the text '007'. So an expression is parsed, and
whatever could be a text is refused: a line of code that computes another key would be worse than none.
"""

import re
from collections.abc import Sequence

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
    found = {}
    for argument in split_arguments(bracketed(text, match.end() - 1)) if match else ():
        order = _ORDER.search(argument)
        words = " ".join(order[0].upper().split()) if order else ""
        if words in _ORDER_METHODS:
            found[_ORDER.sub("", argument)] = _ORDER_METHODS[words]
    return found


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
    tested = {match[1] for match in (re.fullmatch(r"isnull\((.+)\)", one.strip()) for one in arguments) if match}
    found, null_safe = [], []
    for argument in arguments:
        match = re.fullmatch(r"coalesce\((.+), [^,]*\)", argument.strip())
        if match and match[1] in tested:
            found.append(match[1])
            null_safe.append(True)
        elif not (argument.strip().startswith("isnull(") and argument.strip()[7:-1] in found):
            found.append(argument)
            null_safe.append(False)
    return found, null_safe


def definitions(project: str) -> dict[str, str]:
    """Return the columns that a projection defines: `Project [(a#1 % 50) AS b#2]` -> {`b#2`: `(a#1 % 50)`}."""
    start = project.find("[")
    if start < 0 or " AS " not in project:
        return {}
    found = {}
    for part in split_arguments(bracketed(project, start)):
        expression, middle, name = part.rpartition(" AS ")
        if middle and is_attribute(name):
            found[name.strip()] = expression.strip()
    return found


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


_TOKENS = re.compile(
    r"\s*(?:(?P<attribute>[^\W\d][\w.]*#\d+L?(?:-T\d+ms)?)"
    r"|(?P<number>(?:0|[1-9]\d*)(?:\.\d+)?)(?![\w#.])"
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<sign><=>|<=|>=|[-+*/%=<>(),]))"
)
# Functions of columns alone: a number among their arguments may be a text.
_OF_COLUMNS = {"abs", "ceil", "coalesce", "concat", "crc32", "floor", "greatest", "isnotnull", "isnull", "least"}
_OF_COLUMNS |= {"length", "lower", "ltrim", "md5", "reverse", "rtrim", "sha1", "soundex", "trim", "upper"}
_OF_COLUMNS |= {"day", "dayofmonth", "dayofweek", "dayofyear", "hour", "minute", "month", "quarter", "second"}
_OF_COLUMNS |= {"weekofyear", "year"}
# Functions whose arguments behind the first are numbers. What takes a pattern or a unit as text is not among them, nor
# what a plan prints in another form than SQL takes: `hash` with its seed, `if (a) b else c`.
_WITH_NUMBERS = {"date_add", "date_sub", "pmod", "round", "substr", "substring"}
_TYPES = {"bigint", "int", "smallint", "tinyint", "string", "double", "float", "date", "timestamp", "boolean"}
_ARITHMETIC = {"+", "-", "*", "/", "%"}
_COMPARISONS = {"=", "<", ">", "<=", ">=", "<=>"}
_LOGIC = {"and", "or"}
_RESERVED = {"case", "when", "then", "else", "end", "and", "or", "not", "as"}
_DATE = re.compile(r"\b\d{4}-\d\d")

Token = tuple[str, str]


class _Unclear(Exception):  # noqa: N818
    """The plan does not show exactly what is computed."""


def quoted(name: str) -> str:
    """Return the name of a column as SQL takes it, with backticks where it needs them."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else f"`{name.replace('`', '``')}`"


def as_sql(expression: str) -> str | None:
    """Return `upper(name#3)` as `upper(name)`; None if the plan does not show exactly what is computed."""
    if _DATE.search(expression):
        return None
    tokens, place = [], 0
    text = expression.strip()
    while place < len(text):
        match = _TOKENS.match(text, place)
        if match is None:
            return None
        tokens.append((str(match.lastgroup), match[match.lastgroup or 0]))
        place = match.end()
    try:
        return _Parser(tokens).whole()
    except (_Unclear, RecursionError):
        return None


class _Parser:
    """Read tokens by the grammar of an expression, and write them as SQL."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._place = 0

    def whole(self) -> str:
        written = self._expression()
        if self._place < len(self._tokens):
            raise _Unclear
        return written

    def _expression(self, number: bool = False) -> str:
        """Read operands with operators between them. A number alone is read only where nothing else can be meant."""
        first = self._peek()
        written = [self._operand()]
        signs = set()
        numbers = first[0] == "number"
        while self._peek()[1].lower() in _ARITHMETIC | _COMPARISONS | _LOGIC:
            sign = self._next()[1]
            signs.add(sign.lower())
            numbers = numbers or self._peek()[0] == "number"
            written += [sign, self._operand()]
        if numbers and not (signs and signs <= _ARITHMETIC) and not (number and not signs):
            raise _Unclear  # name = 7 may compare with the text '7'
        return " ".join(written)

    def _operand(self) -> str:
        kind, token = self._next()
        word = token.lower()
        if kind == "attribute":
            return quoted(token.partition("#")[0])
        if kind == "number":
            return token
        if token == "(":
            written = f"({self._expression()})"
            self._expect(")")
            return written
        if token == "-" and self._peek()[0] in ("attribute", "number"):
            return f"-{self._operand()}"
        if kind != "word":
            raise _Unclear
        if word == "not":
            return f"NOT {self._operand()}"
        if word == "case":
            return self._case(token)
        if self._peek()[1] == "(" and word not in _RESERVED:
            return self._call(token)
        raise _Unclear

    def _call(self, name: str) -> str:
        word = name.lower()
        self._expect("(")
        arguments = [self._expression()]
        if word == "cast":
            kind = self._expect("as") and self._next()[1]
            if kind.lower() not in _TYPES:
                raise _Unclear
            arguments[0] += f" as {kind}"
        elif word not in _OF_COLUMNS and word not in _WITH_NUMBERS:
            raise _Unclear
        else:
            while self._peek()[1] == ",":
                self._next()
                arguments.append(self._expression(number=word in _WITH_NUMBERS))
        self._expect(")")
        return f"{name}({', '.join(arguments)})"

    def _case(self, first: str) -> str:
        written = [first]
        while self._peek()[1].lower() == "when":
            written += [self._next()[1], self._expression(), self._expect("then"), self._expression()]
        if self._peek()[1].lower() == "else":
            written += [self._next()[1], self._expression()]
        written.append(self._expect("end"))
        if len(written) < 5:
            raise _Unclear
        return " ".join(written)

    def _peek(self) -> Token:
        return self._tokens[self._place] if self._place < len(self._tokens) else ("", "")

    def _next(self) -> Token:
        token = self._peek()
        self._place += 1
        return token

    def _expect(self, wanted: str) -> str:
        token = self._next()[1]
        if token.lower() != wanted:
            raise _Unclear
        return token
