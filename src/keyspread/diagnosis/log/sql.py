"""Turn an expression of a plan back into SQL, if the plan shows it exactly.

A plan prints texts and dates without quotes: `coalesce(name#3, none)` may mean the text 'none' or nothing that exists,
`concat(a#1, -, b#2)` has the text '-' in it, and `concat(a#1, 007)` the text '007'. So an expression is parsed, and
whatever could be a text is refused: a line of code that computes another key would be worse than none.
"""

import re
from collections.abc import Sequence

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
