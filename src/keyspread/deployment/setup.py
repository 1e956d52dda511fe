"""What a deployment is: the streams, the schemes, the workers and their work. The defaults are the paper's."""

from dataclasses import asdict, dataclass
from typing import Any

from keyspread import checks
from keyspread.errors import InputError
from keyspread.schemes import LOOK_AHEAD, PLANNED, Kind, online_scheme, resolve
from keyspread.streams import ZipfStream

SCHEMES = ("key", "partial-key", "shuffle", "d-choices", "w-choices", PLANNED)
WORK = ("sleep", "cpu")


@dataclass(frozen=True)
class Setup:
    """Zipf streams from `sources` to `workers`, each message `milliseconds` of work, by several schemes."""

    skews: tuple[float, ...] = (1.4, 1.7, 2.0)
    schemes: tuple[str, ...] = SCHEMES
    workers: int = 80
    sources: int = 48
    keys: int = 10_000
    milliseconds: float = 1.0
    work: str = "sleep"
    """`sleep` needs no core, so workers may outnumber them; `cpu` burns one."""
    messages: int | None = None
    """Of every throughput run; None: as many as keep the busiest worker at work for `seconds`."""
    seconds: float = 4.0
    repetitions: int = 3
    rate: float = 0.2
    """Messages arrive at this part of the rate at which perfectly even workers are saturated."""
    arrivals: float = 2.0
    """Seconds over which messages arrive where latency is measured; 0: it is not."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be deployed, and give schemes their full names."""
        for name, values in (("skews", self.skews), ("schemes", self.schemes)):
            if not values or len(set(values)) < len(values):
                raise InputError(
                    f"{name} must name one or more, each once, got {', '.join(map(str, values)) or 'none'}"
                )
        for skew in self.skews:
            checks.not_negative("skew", skew)
        object.__setattr__(self, "schemes", tuple(_full_name(name) for name in self.schemes))
        for name in ("workers", "sources", "keys", "repetitions"):
            checks.whole_number(name, getattr(self, name))
        if self.messages is not None:
            checks.whole_number("messages", self.messages)
        for name in ("milliseconds", "seconds"):
            if checks.not_negative(name, getattr(self, name)) == 0:
                raise InputError(f"{name} must be above 0, got 0")
        if self.work not in WORK:
            raise InputError(f"work must be one of {', '.join(WORK)}, got {self.work!r}")
        checks.share("rate", self.rate)
        checks.not_negative("arrivals", self.arrivals)
        checks.whole_number("seed", self.seed, minimum=0)

    @property
    def work_seconds(self) -> float:
        """What a message costs its worker."""
        return self.milliseconds / 1000

    @property
    def best_rate(self) -> float:
        """Messages a second that perfectly even workers can take: no scheme can do more."""
        return self.workers / self.work_seconds

    @property
    def arrival_rate(self) -> float:
        """Messages a second that arrive where latency is measured, the same for every scheme."""
        return self.rate * self.best_rate

    @property
    def arriving(self) -> int:
        """How many messages arrive there."""
        return round(self.arrival_rate * self.arrivals)

    def scaled(self, share: float) -> int:
        """Give the messages of a throughput run whose busiest worker gets this share of them."""
        if self.messages is not None:
            return self.messages
        return max(self.workers, round(self.seconds / self.work_seconds / share))

    def stream(self, skew: float, messages: int) -> ZipfStream:
        """Give the stream of this skew; a shorter one is the beginning of a longer one."""
        return ZipfStream(skew, self.keys, messages, self.seed)

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain values."""
        return {**asdict(self), "skews": list(self.skews), "schemes": list(self.schemes)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Setup":
        """Take what `to_dict` gave."""
        return cls(**{**values, "skews": tuple(values["skews"]), "schemes": tuple(values["schemes"])})


def streaming(scheme: str) -> str:
    """Give the scheme for a stream: a stream cannot be planned whole, so its sources look ahead in each batch."""
    return LOOK_AHEAD if resolve(scheme).kind is Kind.PLANNED else scheme


def _full_name(name: str) -> str:
    return PLANNED if resolve(name).kind is Kind.PLANNED else online_scheme(name).name
