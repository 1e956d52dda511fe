"""The SQL aggregates that can be computed in parts and merged: one rule per function, and a reader of SQL calls.

A part is computed per worker and key, and merged per key over all workers. To support another aggregate, add a rule.
"""

import re
from dataclasses import dataclass

from keyspread.errors import InputError

# Placeholders in SQL: {0} {1} … are the arguments of the call, {p0} {p1} … the columns of the parts, {m0} {m1} … the
# columns of the merged parts.


@dataclass(frozen=True)
class Rule:
    """How to compute one aggregate in parts. Merged parts have the columns of parts, so they can be merged again."""

    parts: tuple[str, ...]
    merged: tuple[str, ...]
    finished: str = "{m0}"
    takes: range = range(1, 2)  # number of arguments; further ones that Spark accepts are refused, not ignored
    needs: str | None = None  # a function that not every version of Spark has


def _same(name: str) -> Rule:
    """Make the rule of an aggregate whose parts are merged by the same function."""
    return Rule((f"{name}({{0}})",), (f"{name}({{p0}})",))


# Spark rewrites a sum of counts into one step, which would undo the spreading, so rows are counted by a sum of ones.
_COUNT = "sum(if({0} IS NULL, 0L, 1L))"
_SUMS = ("sum({p0})", "sum({p1})")
# (n, mean, M2) of each part, merged pairwise (Chan et al.): sums of squares would lose digits.
_MOMENTS = (
    "named_struct('n', cast(count({0}) AS double), 'mean', avg(cast({0} AS double)), "
    "'m2', var_pop(cast({0} AS double)) * count({0}))",
)
_MERGED_MOMENTS = (
    "aggregate(filter(collect_list({p0}), part -> part.n > 0), named_struct('n', 0D, 'mean', 0D, 'm2', 0D), "
    "(a, b) -> named_struct('n', a.n + b.n, 'mean', a.mean + (b.mean - a.mean) * (b.n / (a.n + b.n)), "
    "'m2', a.m2 + b.m2 + (b.mean - a.mean) * (b.mean - a.mean) * (a.n * b.n / (a.n + b.n))))",
)


def _variance(divisor: str, root: bool) -> Rule:
    variance = f"if({{m0}}.n > {0 if divisor == '{m0}.n' else 1}, {{m0}}.m2 / ({divisor}), NULL)"
    finished = f"sqrt({variance})" if root else variance
    return Rule(_MOMENTS, _MERGED_MOMENTS, finished)


_SAMPLE, _WHOLE = "{m0}.n - 1", "{m0}.n"


def _lists(part: str, merged: str, finished: str) -> Rule:
    return Rule((part,), (merged.format("flatten(collect_list({p0}))"),), finished)


def _by(name: str, order: str) -> Rule:
    parts = (f"{name}({{0}}, {{1}})", f"{order}({{1}})")
    return Rule(parts, (f"{name}({{p0}}, {{p1}})", f"{order}({{p1}})"), takes=range(2, 3))


RULES: dict[str, Rule] = {
    "count": Rule((_COUNT,), ("sum({p0})",)),
    "sum": _same("sum"),
    "avg": Rule(("sum(cast({0} AS double))", _COUNT), _SUMS, "try_divide({m0}, {m1})"),
    "var_samp": _variance(_SAMPLE, root=False),
    "var_pop": _variance(_WHOLE, root=False),
    "stddev_samp": _variance(_SAMPLE, root=True),
    "stddev_pop": _variance(_WHOLE, root=True),
    "collect_list": _lists("collect_list({0})", "{}", "{m0}"),
    "collect_set": _lists("collect_set({0})", "array_distinct({})", "{m0}"),
    "count_distinct": _lists("collect_set({0})", "array_distinct({})", "cast(size({m0}) AS bigint)"),
    "max_by": _by("max_by", "max"),
    "min_by": _by("min_by", "min"),
    "min": _same("min"),
    "max": _same("max"),
    "bool_and": _same("bool_and"),
    "bool_or": _same("bool_or"),
    "bit_and": _same("bit_and"),
    "bit_or": _same("bit_or"),
    "bit_xor": _same("bit_xor"),
    # Sketches: the result is within their error bound, not equal to the plain one.
    "approx_count_distinct": Rule(
        ("hll_sketch_agg(xxhash64({0}), 14) FILTER (WHERE {0} IS NOT NULL)",),
        ("hll_union_agg({p0})",),
        "coalesce(hll_sketch_estimate({m0}), 0L)",
        needs="hll_sketch_agg",
    ),
    "approx_percentile": Rule(
        ("kll_sketch_agg_double(cast({0} AS double), 400)",),
        ("kll_merge_agg_double({p0}, 400)",),
        "if(kll_sketch_get_n_double({m0}) > 0, kll_sketch_get_quantile_double({m0}, {1}), NULL)",
        takes=range(2, 3),
        needs="kll_sketch_agg_double",
    ),
    "approx_top_k": Rule(
        ("approx_top_k_accumulate({0}, greatest(10 * {1}, 1000))",),
        ("approx_top_k_combine({p0}, greatest(10 * {1}, 1000))",),
        "approx_top_k_estimate({m0}, {1})",
        takes=range(1, 3),
        needs="approx_top_k_accumulate",
    ),
}


def exact_average(precision: int, scale: int) -> Rule:
    """Return the rule of an average of decimals that is exact to its last digit.

    Spark's division keeps too few digits of wide sums, so this one uses whole numbers. Example: 12.5 / 3 is 4, and the
    remainder 0.5 / 3 is 0.166667; 4 * 10^6 + 166667 is 4166667, and 4166667 * 10^-6 is the result.
    """
    one = f"{10**scale}BD"
    count = "cast(nullif({m1}, 0) AS decimal(15,0))"
    whole = "if({m0} < 0, ceil({m0}), floor({m0}))"
    remainder = f"({whole} % {count})"
    quotient = f"cast(({whole} - {remainder}) / {count} AS decimal(38,0))"
    fraction = f"cast(({remainder} + {{m0}} % 1) / {count} AS decimal({scale + 1},{scale}))"
    digits = f"({quotient} * {one} + cast({fraction} * {one} AS decimal(38,0)))"
    finished = f"cast(concat(cast({digits} AS string), 'E-{scale}') AS decimal({precision},{scale}))"
    return Rule(("sum({0})", _COUNT), _SUMS, finished)


_OTHER_NAMES = {
    "mean": "avg",
    "variance": "var_samp",
    "stddev": "stddev_samp",
    "std": "stddev_samp",
    "array_agg": "collect_list",
    "percentile_approx": "approx_percentile",
    "every": "bool_and",
    "some": "bool_or",
    "any": "bool_or",
}
_DEFAULTS = {"approx_top_k": ("5",)}  # Spark's default for an argument that is not given
_STAR = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|(?P<star>(?:\A|[(,])\s*\*|\.\s*\*)", re.DOTALL)
_CALL = re.compile(r"\s*(\w+)\s*\(\s*(distinct\b|all\b)?(.*)\)\s*\Z", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of the user: its column in the result, the plain SQL, its rule and its arguments."""

    name: str | None  # None: the name that Spark gives to it
    plain: str
    rule: Rule
    arguments: tuple[str, ...]


def parse(name: str, text: str) -> Aggregate:
    """Read `function(arguments)`; refuse an aggregate that cannot be merged, with a list of those that can."""
    call = _CALL.match(text)
    arguments = _split(call[3]) if call is not None else None
    if call is None or arguments is None:
        raise InputError(f"aggregate {name!r} must be one call such as 'sum(amount)', got {text!r}")
    function = call[1].lower()
    function = _OTHER_NAMES.get(function, function)
    distinct = call[2] is not None and call[2].lower() == "distinct"
    if distinct:
        function = "count_distinct" if function == "count" and len(arguments) == 1 else f"{function}(distinct)"
    rule = RULES.get(function)
    if rule is None:
        known = ", ".join(sorted({*RULES, *_OTHER_NAMES}))
        raise InputError(
            f"aggregate {name!r}: {function!r} cannot be merged from parts; these can: {known}; "
            "for anything else pass an Operator"
        )
    if function == "approx_percentile" and arguments[2:] == ["10000"]:  # Spark's default, which PySpark writes out
        del arguments[2:]
    if len(arguments) not in rule.takes:
        takes = " or ".join(map(str, rule.takes))
        raise InputError(
            f"aggregate {name!r}: {function!r} takes {takes} argument(s) here, got {len(arguments)} in {text!r}"
        )
    if arguments[0] == "*":
        if function != "count":
            raise InputError(f"aggregate {name!r}: {function!r} of * cannot be merged from parts; name a column")
        arguments = ["1"]
    if any(match["star"] for argument in arguments for match in _STAR.finditer(argument)):
        # On a worker, * would include the columns of the routing.
        raise InputError(f"aggregate {name!r}: name the columns instead of * in {text!r}")
    plain = text if function != "count_distinct" or distinct else f"count(DISTINCT {arguments[0]})"
    arguments += _DEFAULTS.get(function, ())[len(arguments) - 1 :]
    return Aggregate(name, plain, rule, tuple(f"({argument})" for argument in arguments))


def _split(text: str) -> list[str] | None:
    """Split arguments at commas outside brackets and quotes; None if a bracket or quote is not closed."""
    found, depth, quote, begin, escaped = [], 0, "", 0, False
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote and not escaped else quote
            escaped = char == "\\" and not escaped and quote != "`"
        elif char in "'\"`":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth < 0:  # 'sum(a) + sum(b)': the call ends before the text does
                return None
        elif char == "," and depth == 0:
            found.append(text[begin:at].strip())
            begin = at + 1
    found.append(text[begin:].strip())
    return None if depth or quote else [argument for argument in found if argument]
