"""`Routing`: how rows are to be routed. What the callers of `spread`, `aggregate` and `Totals` ask for is checked here.

An option that would do nothing is refused, in one line that says what to do instead.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from keyspread import checks
from keyspread.errors import InputError
from keyspread.online.settings import SenderSettings, Settings
from keyspread.planned.plan import Plan
from keyspread.schemes import PLANNED, Descriptor, Kind, online_scheme, resolve
from keyspread.spark.routing.weights import Weight
from keyspread.threshold import checked_threshold

if TYPE_CHECKING:
    from keyspread.spark.streaming.stream_watch import StreamWatch
    from keyspread.spark.watch import Watch


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
    watch: "Watch | StreamWatch | None" = None

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
        watch: "Watch | StreamWatch | None" = None,
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
