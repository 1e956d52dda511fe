"""What Spark's text of a plan says: its operators, and whether their rows come in a fixed order.

Text is all that classic Spark and Connect both return. Spark does not mark which part of it is a column name of yours,
so we look for what we know and take everything else for something that we do not know.
"""

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from pyspark.sql import DataFrame

from keyspread.errors import InputError
from keyspread.spark._engine.capabilities import explained

# Operators that return rows in an order that depends on their input alone. Any other may not.
_FIXED = frozenset(
    [
        "AdaptiveSparkPlan",
        "ArrowEvalPython",
        "BatchEvalPython",
        "BatchScan",
        "BroadcastExchange",
        "BroadcastHashJoin",
        "Coalesce",
        "CollectMetrics",
        "ColumnarToRow",
        "EventTimeWatermark",
        "Expand",
        "FileScan",
        "Filter",
        "Generate",
        "InMemoryRelation",
        "InMemoryTableScan",
        "InputAdapter",
        "LocalTableScan",
        "MapInArrow",
        "MapInPandas",
        "MicroBatchScan",
        "Project",
        "PythonMapInArrow",
        "Range",
        "ResultQueryStage",
        "Sample",
        "StreamingRelation",
        "TableCacheQueryStage",
        "Union",
    ]
)
_OPERATOR = re.compile(r"^([\s:+\-]*)(?:\*\(\d+\) |\* |[~!])?(\w+)(.*)$", re.DOTALL)
_BRANCH = re.compile(r"^[\s:]*[+:]- ")
_HEADER = re.compile(r"^[\s:+\-]*== (Final|Initial|Current|Physical) Plan ==$")
_CUT_SHORT = re.compile(r"\.\.\. \d+ more characters|Truncated plan of \d+ characters")
_OPTIMIZED = re.compile(r"^== Optimized Logical Plan ==$(.*?)^== Physical Plan ==$", re.DOTALL | re.MULTILINE)
# What is read once and then the same for all scans of a query, as files are. Others may be written to in between.
_SETTLED = re.compile(r"\s*(ExistingRDD|OneRowRelation|hive\b)")
_LIVE = re.compile(r"jdbc|kafka|mongo|cassandra|\(python\)", re.IGNORECASE)


class Operator(NamedTuple):
    """One operator of the text of a plan."""

    depth: int
    name: str
    details: str

    @property
    def keeps_order(self) -> bool:
        """Whether the order of its rows depends on the order of its input alone, as far as we know."""
        if self.name == "Scan":  # of a source of version 1
            return self.details.lstrip().startswith("KafkaRelation")  # in the order of its offsets
        return self.name in _FIXED and "jdbc" not in self.details.lower()


def operators_of(plan: str) -> list[Operator]:
    """Read the text of a plan. What is below an operator follows it, with a greater depth.

    A line that starts no operator belongs to the one before it: names and constants may contain line breaks.

    >>> [operator.name for operator in operators_of("Filter (a#1 = x\\nrand(1))\\n+- Range (0, 9)")]
    ['Filter', 'Range']
    """
    starts: list[str] = []
    behind_header = True
    for line in plan.splitlines():
        if _HEADER.match(line):  # of the two plans of a cached DataFrame
            behind_header = True
        elif line.strip() and (behind_header or _BRANCH.match(line)):
            starts.append(line)
            behind_header = False
        elif line.strip():
            starts[-1] += f"\n{line}"
    matches = [(_OPERATOR.match(line), line) for line in starts]
    return [Operator(len(match[1]), match[2], match[3]) if match else Operator(0, "", line) for match, line in matches]


def physical_plan(df: DataFrame) -> str:
    """Return the text of the physical plan. Works for streams and under Connect."""
    return _checked(explained(df, "simple"))


def optimized_plan(df: DataFrame) -> str:
    """Return the text of the optimized logical plan, which shows every expression; the physical one hides some."""
    section = _OPTIMIZED.search(_checked(explained(df, "extended")))
    return _checked(section[1] if section else "")


def _checked(plan: str) -> str:
    if _CUT_SHORT.search(plan):
        raise InputError(
            "Spark prints only the beginning of the physical plan, so keyspread cannot tell whether a retried task "
            "would compute other rows: raise spark.sql.maxPlanStringLength"
        )
    if not operators_of(plan):
        raise InputError("Spark printed no plan, so keyspread cannot tell how rows are computed")
    return plan


def is_read_row_by_row(df: DataFrame) -> bool:
    """Return whether the first rows can be computed without the others: nothing in the plan needs all of them."""
    return has_fixed_order(operators_of(explained(df, "simple")))


def has_fixed_order(operators: Sequence[Operator]) -> bool:
    """Return whether every operator of a plan keeps a fixed order; operators that we do not know may not.

    >>> rows = "+- *(1) Range (0, 10, step=1, splits=2)"
    >>> has_fixed_order(operators_of(f"*(1) Project [id#0L]\\n{rows}"))
    True
    >>> has_fixed_order(operators_of(f"Exchange hashpartitioning(id#0L, 2)\\n{rows}"))
    False
    """
    return bool(operators) and all(operator.keeps_order for operator in operators)


def reads_live_rows(operators: Sequence[Operator]) -> bool:
    """Return whether rows come from a database, a topic or the like: two scans in one query may find different rows.

    >>> reads_live_rows(operators_of("*(1) Scan JDBCRelation(orders) [numPartitions=1] [k#15L]"))
    True
    >>> reads_live_rows(operators_of("FileScan parquet [k#15L] Location: InMemoryFileIndex[file:/kafka]"))
    False
    """
    return any(
        (operator.name == "Scan" and not _SETTLED.match(operator.details))
        or (operator.name == "BatchScan" and _LIVE.search(operator.details) is not None)
        for operator in operators
    )


def below(operators: Sequence[Operator], number: int) -> list[Operator]:
    """Return the operators from which an operator gets its rows."""
    depth = operators[number].depth
    return list(takewhile(lambda other: other.depth > depth, operators[number + 1 :]))
