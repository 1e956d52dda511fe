"""The number of partitions of a join, if the caller does not say it."""

from dataclasses import dataclass
from functools import cached_property

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from keyspread.errors import InputError
from keyspread.spark._engine.capabilities import is_column, quiet_analysis
from keyspread.spark._engine.failures import why
from keyspread.spark._joining.keys import JoinKeys, Kind
from keyspread.spark._joining.numbering import Numbers, numbers_of
from keyspread.spark._joining.plan import JoinPlan
from keyspread.spark._joining.sides import with_partners, with_salts
from keyspread.spark._routing.keys import quoted, top_of
from keyspread.spark._routing.options import SHUFFLE_PARTITIONS

_INITIAL = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"


def has_fewer_than_asked(spark: SparkSession, workers: int) -> bool:
    """Return whether these are fewer partitions than the session asks for."""
    # The second has no value by default.
    asked = [str(spark.conf.get(SHUFFLE_PARTITIONS)), str(spark.conf.get(_INITIAL, None))]
    return any(number.isdigit() and workers < int(number) for number in asked)


# The join itself: Spark's own, with or without salts, and the columns of `left.join(right, on, how)`.


Condition = Column | str
Marks = tuple[str | None, str | None]
_COPIES_WORTH_A_STEP = 0.1  # of the right rows: then the right side of a semi join is reduced to distinct keys first


def check_condition(condition: object) -> None:
    """Refuse a further condition that is neither a Column nor text."""
    if condition is not None and not isinstance(condition, str) and not is_column(condition):
        raise InputError(f"condition must be a Column or SQL text, got {condition!r:.100}")


@dataclass(frozen=True)
class Join:
    """The two sides of a join and how they are joined."""

    left: DataFrame
    right: DataFrame
    keys: JoinKeys
    kind: Kind
    condition: Condition | None = None

    def plain(self) -> DataFrame:
        """Return Spark's own join. It is analysed here, so that what cannot be joined is one line."""
        try:
            with quiet_analysis():
                if self._is_by_name:
                    names = [pair.left for pair in self.keys.pairs]
                    found = self.left.join(self.right, names, self.kind.value)
                else:
                    found = self._by_expressions(*self._with_keys(self.left, self.right, as_they_are=True), salts=None)
                found.schema  # noqa: B018
                return found
        except AnalysisException as problem:
            raise InputError(f"these sides cannot be joined: {why(str(problem))}") from None

    def by_plan(self, plan: JoinPlan, repartition: bool = True) -> DataFrame:
        """Return the same rows and columns, with hot keys cut as the plan says."""
        copied = {
            "left": any(len(key.right_shares) > 1 for key in plan.hot),
            "right": any(len(key.left_shares) > 1 for key in plan.hot),
        }
        preserves = {"left": self.kind.preserves_left, "right": self.kind.preserves_right}
        drops = not self.kind.has_left_columns_only and any(copied[side] and preserves[side] for side in copied)
        salts = self._free_names("salt")
        if self._is_by_name:
            salts = salts[0], salts[0]
        marks: Marks
        if self._is_reduced:
            marks = None, self._free_names("mark")[1] if self.kind is Kind.ANTI else None
        else:
            marks = self._free_names("mark") if drops else (None, None)
        left, right = self._with_keys(self.left, self._reduced_right())
        whole = {"left": left, "right": right}
        sides = []
        for side, df, other, number in (("left", left, "right", 0), ("right", right, "left", 1)):
            partner = None
            if drops and copied[side] and preserves[side]:
                partner = self._free_names("partner")[number]
                df = with_partners(df, whole[other], side, self.keys, plan, partner)
            numbers = self.numbers(side) if plan.cuts(side) else Numbers()
            df = with_salts(df, side, self.keys, plan, numbers, salts[number], marks[number], partner)
            sides.append(df if partner is None else df.drop(partner))
        left, right = sides
        if self._is_reduced and not self._is_by_name and not self._are_clear:
            # Only our copies of the keys: the columns they are made from may have names of the left side.
            right = right.select(*self._names_of_keys("right"), *filter(None, (salts[1], marks[1])))
        many = sum(key.right * (len(key.left_shares) - 1) for key in plan.hot)
        early = self._is_reduced and many > _COPIES_WORTH_A_STEP * sum(key.right for key in plan.hot)
        right = right.distinct() if early else right
        if repartition and (self._is_reduced or not self.kind.has_left_columns_only):
            # With a given number of partitions, adaptive execution does not merge them by their bytes: the work of a
            # partition may be in its output. A semi join would be moved below this step.
            left = self._exchanged(left, plan.workers, [*self._key_columns("left"), F.col(salts[0])])
            right = self._exchanged(right, plan.workers, [*self._key_columns("right"), F.col(salts[1])])
        right = right.distinct() if self._is_reduced and not early else right
        if not self._is_by_name:
            return self._by_expressions(left, right, salts, marks)
        names = [pair.left for pair in self.keys.pairs]
        joined = left.join(right, [*names, salts[0]], self._spark_how)
        return self._without_false_rows(joined, marks).drop(salts[0])

    def _exchanged(self, df: DataFrame, workers: int, keys: list[Column]) -> DataFrame:
        found = df.repartition(workers, *keys)
        if not has_fewer_than_asked(df.sparkSession, workers):
            return found
        # Right below a join, Spark replaces an exchange that has fewer partitions than the session asks for.
        return found.where("spark_partition_id() >= 0")

    def numbers(self, side: str) -> Numbers:
        """Return how the rows of a side are numbered, to be cut."""
        return self._left_numbers if side == "left" else self._right_numbers

    @cached_property
    def _left_numbers(self) -> Numbers:
        return numbers_of(self.left, [pair.left for pair in self.keys.pairs])

    @cached_property
    def _right_numbers(self) -> Numbers:
        return numbers_of(self.right, [pair.right for pair in self.keys.pairs])

    @property
    def _is_reduced(self) -> bool:
        """Whether distinct right keys are enough. Then a semi join is an inner join with them."""
        return self.kind.has_left_columns_only and self.condition is None

    @property
    def _spark_how(self) -> str:
        """The join that Spark runs. It moves semi and anti joins below an exchange, where hot keys are whole."""
        if not self._is_reduced:
            return self.kind.value
        return "inner" if self.kind is Kind.SEMI else "left"

    def _reduced_right(self) -> DataFrame:
        """Return the right side, if possible only the columns that its keys are made from."""
        if not self._is_reduced:
            return self.right
        tops = dict.fromkeys(top_of(self.right, pair.right) for pair in self.keys.pairs)
        return self.right.select(*map(quoted, tops))

    @property
    def _is_by_name(self) -> bool:
        """Whether Spark joins by the names of columns, so that the result has their own attributes and order."""
        return self.keys.by_name and self.keys.is_plain and self.condition is None

    @property
    def _are_clear(self) -> bool:
        """Whether the names of keys tell the sides apart, so that no copies of the keys are needed."""
        lefts, rights = ({name.lower() for name in df.columns} for df in (self.left, self.right))
        return self.keys.is_plain and all(
            pair.left.lower() in lefts - rights and pair.right.lower() in rights - lefts for pair in self.keys.pairs
        )

    def _free_names(self, wanted: str) -> tuple[str, str]:
        """Return names for a column of ours on either side that no column has."""
        taken = {name.lower() for df in (self.left, self.right) for name in df.columns}
        prefix = "keyspread_"
        while any(name.startswith(f"{prefix}{wanted}") for name in taken):
            prefix += "_"
        return f"{prefix}{wanted}_left", f"{prefix}{wanted}_right"

    def _names_of_keys(self, side: str) -> list[str]:
        base = self._free_names("key")[side == "right"]
        return [f"{base}_{number}" for number in range(len(self.keys.pairs))]

    def _key_columns(self, side: str) -> list[Column]:
        """Return the columns that are compared and hashed."""
        if self._is_by_name or self._are_clear:
            return [F.col(quoted(pair.left if side == "left" else pair.right)) for pair in self.keys.pairs]
        return [F.col(name) for name in self._names_of_keys(side)]

    def _with_keys(self, left: DataFrame, right: DataFrame, as_they_are: bool = False) -> tuple[DataFrame, DataFrame]:
        """Add what is compared as columns with names of our own, unless the sides have such columns.

        Spark's own join needs no form of ours: it compares keys `as_they_are`.
        """
        if self._is_by_name or self._are_clear:
            return left, right
        found = []
        for df, side in ((left, "left"), (right, "right")):
            names, values = self._names_of_keys(side), self.keys.sql_of(side, as_they_are)
            found.append(
                df.select("*", *(F.expr(value).alias(name) for name, value in zip(names, values, strict=True)))
            )
        return found[0], found[1]

    def _by_expressions(
        self, left: DataFrame, right: DataFrame, salts: tuple[str, str] | None, marks: Marks = (None, None)
    ) -> DataFrame:
        pairs = list(zip(self._key_columns("left"), self._key_columns("right"), strict=True))
        null_safe = self.keys.null_safe and salts is None  # otherwise a struct makes null a value like any other
        on = [one.eqNullSafe(other) if null_safe else one == other for one, other in pairs]
        if salts is not None:
            on.append(F.col(salts[0]) == F.col(salts[1]))
        if self.condition is not None:
            on.append(F.expr(self.condition) if isinstance(self.condition, str) else self.condition)
        whole = on[0]
        for one in on[1:]:
            whole = whole & one
        how = self.kind.value if salts is None else self._spark_how
        joined = self._without_false_rows(left.join(right, whole, how), marks)
        ours = {*self._names_of_keys("left"), *self._names_of_keys("right"), *(salts or ())}
        if self._is_reduced and salts is not None:
            ours |= {name for name in right.columns if name not in self.left.columns}
        found = [name for name in joined.columns if name in ours]
        return self._keys_first(joined, ours) if self.keys.by_name else joined.drop(*found)

    def _without_false_rows(self, joined: DataFrame, marks: Marks) -> DataFrame:
        """Drop copies that found no partner in their piece, although their key has partners."""
        one, other = marks
        if other is None:
            return joined
        if one is None:  # an anti join: rows that found a partner
            return joined.where(f"{other} IS NULL").drop(other)
        kept = f"({one} IS NOT NULL AND {other} IS NOT NULL) OR coalesce({one}, {other}) = 0"
        return joined.where(kept).drop(one, other)

    def _keys_first(self, joined: DataFrame, ours: set[str]) -> DataFrame:
        """Return the columns of a join by names: the keys once and first, then the others of either side."""
        # Both sides may have the same names, so columns are found by their place.
        names = joined.columns
        numbered = joined.toDF(*(f"c{number}" for number in range(len(names))))
        own = [number for number, name in enumerate(names) if name not in ours]
        lefts, rights = own[: len(self.left.columns)], own[len(self.left.columns) :]
        columns = []
        for pair in self.keys.pairs:
            one = F.col(f"c{lefts[self.left.columns.index(pair.left)]}")
            if self.kind in (Kind.RIGHT, Kind.FULL):
                other = F.col(f"c{rights[self.right.columns.index(pair.right)]}")
                one = other if self.kind is Kind.RIGHT else F.coalesce(one, other)
            columns.append(one.alias(pair.right if self.kind is Kind.RIGHT else pair.left))
        keys = {pair.left for pair in self.keys.pairs}, {pair.right for pair in self.keys.pairs}
        for numbers, of_keys in zip((lefts, rights), keys, strict=True):
            columns += [F.col(f"c{number}").alias(names[number]) for number in numbers if names[number] not in of_keys]
        return numbered.select(*columns)
