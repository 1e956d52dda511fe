"""The way in which a result is computed, and why: what a watch prints."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, IntegerType, LongType, ShortType

from keyspread import checks
from keyspread.checks import checked_threshold
from keyspread.errors import InputError
from keyspread.planned.plan import Plan
from keyspread.sender.registry import PLANNED, Descriptor, Kind, online_scheme, resolve
from keyspread.sender.settings import SenderSettings, Settings
from keyspread.spark._engine.capabilities import is_column
from keyspread.spark._routing.keys import KeyColumn, column, field_of, type_of


@dataclass(frozen=True)
class Way:
    """How a result is computed: the name of a scheme, and the reason in one line.

    >>> print(Way("planned", "the caller passed a plan"))
    planned: the caller passed a plan
    """

    name: str
    reason: str

    def __str__(self) -> str:
        """Return both, as one line."""
        return f"{self.name}: {self.reason}"


# How many workers there are, if the caller does not say it.


SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def shuffle_partitions(spark: SparkSession) -> int:
    """Return the number of partitions of a shuffle; some platforms leave it open."""
    value = str(spark.conf.get(SHUFFLE_PARTITIONS))
    if not value.isdigit():
        raise InputError(f"{SHUFFLE_PARTITIONS} is {value!r}, which says no number: pass workers=")
    return int(value)


def checked_workers(spark: SparkSession, workers: Any) -> int:
    """Return the number of workers, by default that of the session."""
    return checks.whole_number("workers", shuffle_partitions(spark) if workers is None else workers)


# The weight of a row: a column, or an expression of columns, that holds whole numbers.


Weight = str | Column


def weight_column(df: DataFrame, weight: Weight) -> Column:
    """Return the weight as a bigint column, after checking its type. A null weight counts as 0."""
    if not isinstance(weight, str) and not is_column(weight):
        raise InputError(f"weight must be the name of a column, or a column, got {weight!r}")
    kind = type_of(df, weight) if isinstance(weight, str) else field_of("weight", weight, df.select).dataType
    if not isinstance(kind, (ByteType, ShortType, IntegerType, LongType)):
        raise InputError(
            f"weight {f'{weight!r} ' if isinstance(weight, str) else ''}has type {kind.simpleString()}, "
            "a weight is a whole number: use bytes (length, octet_length), or microseconds instead of seconds"
        )
    return F.coalesce(column(df, weight).cast("bigint"), F.lit(0).cast("bigint"))


# `Routing`: how rows are to be routed. What the callers of `spread`, `aggregate` and `Totals` ask for is checked here.
#
# An option that would do nothing is refused, in one line that says what to do instead.


class Watching(Protocol):
    """What a `Watch` and a `StreamWatch` have in common."""

    @property
    def uses_threshold(self) -> bool:
        """Whether it shows hot keys, and so needs to know when a key is hot."""

    def on(self, routed: DataFrame, key: Sequence[KeyColumn], worker: str, routing: "Routing") -> DataFrame:
        """Return the same rows; when they are computed, the watch counts them."""

    def take(self, way: Way, df: DataFrame) -> None:
        """Remember how a result is computed."""


@dataclass(frozen=True)
class Routing:
    """A scheme and its options, checked: every value is one that the scheme uses."""

    workers: int
    scheme: str
    """The canonical name."""
    threshold: float
    """The minimum share of a hot key."""
    plan: Plan | None = None
    weight: Weight | None = None
    tolerance: float | None = None
    sender: Settings = field(default_factory=Settings)
    watch: Watching | None = None

    @classmethod
    def of(
        cls,
        workers: int,
        scheme: str | None,
        default: str,
        *,
        plan: Plan | None = None,
        weight: Weight | None = None,
        threshold: float | None = None,
        tolerance: float | None = None,
        sender: Settings | None = None,
        watch: Watching | None = None,
    ) -> "Routing":
        """Check what the caller asks for; `default` is the scheme if he names none and passes no plan."""
        workers = checks.whole_number("workers", workers)
        descriptor = resolve(scheme if scheme is not None else default if plan is None else PLANNED)
        given = {"weight": weight, "threshold": threshold, "tolerance": tolerance, "sender": sender}
        useless = {name for name, value in given.items() if value is not None and not has_use(name, descriptor)}
        if plan is not None:
            if descriptor.kind is not Kind.PLANNED:
                raise InputError(f"plan= is given, so scheme={scheme!r} has no effect; leave one of them out")
            check_plan(plan, workers)
            useless = {name for name, value in given.items() if value is not None}
        if watch is not None and watch.uses_threshold:
            useless.discard("threshold")
        if useless:
            raise InputError(_useless(min(useless), descriptor.name, plan is not None))
        if sender is not None and not isinstance(sender, Settings):
            raise InputError(f"sender must be keyspread.Settings, such as Settings(seed=7), got {sender!r:.100}")
        routing = cls(
            workers=workers,
            scheme=descriptor.name,
            threshold=checked_threshold(threshold, workers),
            plan=plan,
            weight=weight,
            tolerance=tolerance,
            sender=sender or Settings(),
            watch=watch,
        )
        if descriptor.kind not in (Kind.PLANNED, Kind.LOOK_AHEAD):
            # Wrong options fail here, not in a task.
            SenderSettings.of(online_scheme(descriptor.name), workers, **routing.of_sender())
        return routing

    @property
    def kind(self) -> Kind:
        """What the scheme must see before it routes a row."""
        return resolve(self.scheme).kind

    def of_sender(self) -> dict[str, Any]:
        """Return the parameters of the Sender of each input partition, but for its scheme, workers and source."""
        sized = {} if self.tolerance is None else {"tolerance": self.tolerance}
        return resolve(self.scheme).accept({"threshold": self.threshold, **sized, **vars(self.sender)}, also=("seed",))


def check_plan(plan: Any, workers: int) -> None:
    """Refuse what is no plan, and a plan for another number of workers."""
    if not isinstance(plan, Plan):
        raise InputError(f"plan must be a keyspread.Plan, got {plan!r:.100}; Plan.from_json reads a stored one")
    if plan.workers != workers:
        raise InputError(f"the plan is for {plan.workers} workers, not for {workers}; make a new one with previous=")


def has_use(option: str, scheme: Descriptor) -> bool:
    """Tell whether a scheme uses an option."""
    if option == "weight":
        return True
    return scheme.is_online if option == "sender" else option in scheme.options


def _useless(option: str, scheme: str, with_plan: bool) -> str:
    if with_plan:
        return f"plan= is given, so {option}= has no effect; leave one of them out"
    use = {
        "threshold": "is for schemes that treat hot keys differently",
        "tolerance": "is for d-choices and per-key, which size the choices of a hot key by an estimate",
        "sender": "is for schemes with a Sender, such as d-choices",
    }[option]
    return f"{option}= has no effect with scheme {scheme}: it {use}; leave it out"
