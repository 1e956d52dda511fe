"""The schedules that once failed: a slow test runs them again."""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

from faults.results import Result

FILE = Path(__file__).resolve().parents[3] / "tests" / "spark" / "launch" / "fault_seeds.toml"


@dataclass(frozen=True)
class Seed:
    """A schedule that once failed, and why."""

    seed: int
    group: int
    way: str
    faults: str
    cause: str


def kept() -> list[Seed]:
    """Return all of them."""
    return [Seed(**one) for one in tomllib.loads(FILE.read_text()).get("failed", [])]


def keep(result: Result) -> None:
    """Add a schedule, unless it is there already."""
    if not FILE.exists():  # not in a checkout
        return
    if any((one.seed, one.group, one.way) == (result.seed, result.group, result.way) for one in kept()):
        return
    fields = {
        "seed": result.seed,
        "group": result.group,
        "way": result.way,
        "faults": "; ".join(result.faults),
        "cause": f"not yet known: {result.problem}",
    }
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()]
    with FILE.open("a") as out:
        out.write("\n".join(["", "[[failed]]", *lines, ""]))
