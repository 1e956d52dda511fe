"""The measurement behind figures 13 and 14: given, found where the last one was left, or made now."""

import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keyspread.deployment.measurements import Deployment
    from keyspread.experiments.scale import Scale

_NAME = "deployment.json"


def known(out: str, given: str | None) -> "Deployment | None":
    """Read the measurement that was given, else the one that lies in the folder of the report."""
    from keyspread.experiments.measurement import read_measurement

    path = given or os.path.join(out, _NAME)
    return read_measurement(path) if given or os.path.exists(path) else None


def measure_for(size: "Scale", master: str | None, out: str, verbose: bool) -> "Deployment":
    """Measure at this scale and leave it in the folder: it is not measured twice."""
    from keyspread.cli.commands.bench import check_place, measure
    from keyspread.experiments.measurement import SETUPS

    check_place(master, None)
    found = measure(SETUPS[size.name], master, None, verbose)
    path = os.path.join(out, _NAME)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(found.to_dict(), file)
    os.replace(f"{path}.new", path)
    return found
