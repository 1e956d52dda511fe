"""Schedules: a way, a stream and the moments of its faults, drawn from a seed; a group has the same faults."""

import itertools
import random
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from faults.gates import MOMENTS, READING, write_gates
from faults.streams import Batches, draw_batches, write_batches
from faults.ways import WAYS, Place, Way

# In the order in which a group may have them: what a second driver writes must not meet later faults.
READ_FAULTS = ("reading", "python")
FAULTS = (*READ_FAULTS, "executor", "driver", "slow", "disk", "second")


@dataclass(frozen=True)
class Schedule:
    """One way with a stream of its own. All of it follows from the seed, the number of the group and the way."""

    seed: int
    group: int
    way_name: str
    faults: tuple[str, ...]

    @property
    def name(self) -> str:
        """As `--only` takes it, such as 3/totals, typed."""
        return f"{self.group}/{self.way_name}"

    @property
    def way(self) -> Way:
        """What the query does."""
        return WAYS[self.way_name]

    def dice(self, purpose: str) -> random.Random:
        """Return random numbers for one purpose, so that a change in one draw leaves the others as they are."""
        return random.Random(f"{self.seed}/{self.name}/{purpose}")

    @cached_property
    def batches(self) -> Batches:
        """The rows."""
        return draw_batches(self.dice("rows"))

    @cached_property
    def gates(self) -> list[tuple[int, str]]:
        """The batch and moment of each fault, in order of time."""
        dice, ways = self.dice("gates"), self.way.moments
        for tries in itertools.count():
            gates = []
            for fault in self.faults:
                # A short stream may have too few batches with rows.
                reading = fault in READ_FAULTS and READING in ways and tries < 1000
                gates.append((dice.randrange(len(self.batches)), READING if reading else dice.choice(ways)))
            # A batch without rows has no task that reads them.
            empty = any(moment == READING and not self.batches[batch] for batch, moment in gates)
            times = [(batch, MOMENTS.index(moment)) for batch, moment in gates]
            if not empty and all(a < b for a, b in itertools.pairwise(times)):
                break
        return gates

    @property
    def sliding(self) -> bool:
        """Whether windows overlap."""
        return self.dice("sliding").random() < 0.5

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the query's session."""
        dice = self.dice("settings")
        adaptive, protected = dice.random() < 0.5, dice.random() < 0.5 or not self.way.shuffled
        return {
            "spark.sql.adaptive.enabled": str(adaptive).lower(),
            "spark.sql.shuffle.orderIndependentChecksum.enabled": str(protected).lower(),
            "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": str(protected).lower(),
        }

    def place(self, work: Path) -> Place:
        """Return where the query works, below the folder of its group."""
        number = list(WAYS).index(self.way_name)
        return Place(work / f"{number:02d}", work / "state" / f"{number:02d}", self.sliding)

    def write(self, work: Path) -> None:
        """Write the stream and the gates."""
        place = self.place(work)
        shutil.rmtree(place.folder, ignore_errors=True)
        write_batches(self.batches, place.folder / "in", self.dice("files"))
        (place.folder / "out").mkdir()
        write_gates(place.folder, self.gates)


def draw_group(seed: int, group: int, faults: tuple[str, ...] | None = None) -> list[Schedule]:
    """Return one schedule per way. The first fault takes turns, so that every fault is equally frequent."""
    if faults is None:
        dice = random.Random(f"{seed}/{group}/faults")
        others = dice.choices(FAULTS[:-2], k=dice.randint(1, 2))
        faults = tuple(sorted([FAULTS[group % len(FAULTS)], *others], key=order))
    return [Schedule(seed, group, name, faults) for name in WAYS]


def order(fault: str) -> int:
    """Return 1 for the fault that must come last."""
    return int(fault == FAULTS[-1])


def speculates(group: int) -> bool:
    """Tell whether Spark starts slow tasks a second time. It is a setting of the driver, so it changes seldom."""
    return group // 4 % 2 == 1
