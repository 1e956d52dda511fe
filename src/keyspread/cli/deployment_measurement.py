"""The measurement behind figures 13 and 14: given by the user, left by an earlier run, or made now."""

import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keyspread.deployment.measurements import Deployment
    from keyspread.experiments.scale import Scale

_NAME = "deployment.json"


def find_measurement(out: str, given: str | None) -> "Deployment | None":
    """Read the measurement that the user named, else the one in the folder of the report, if there is one."""
    from keyspread.experiments.measurement import read_measurement

    path = given or os.path.join(out, _NAME)
    return read_measurement(path) if given or os.path.exists(path) else None


def measure_deployment(size: "Scale", master: str | None, out: str, verbose: bool) -> "Deployment":
    """Measure at this size and write the result into the folder, so that it is not measured again."""
    from keyspread.cli.commands.bench import check_cluster, measure
    from keyspread.experiments.measurement import SETUPS

    check_cluster(master, None)
    measured = measure(SETUPS[size.name], master, None, verbose)
    path = os.path.join(out, _NAME)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(measured.to_dict(), file)
    os.replace(f"{path}.new", path)
    return measured
