"""The search for the number of choices (Prop. 4.1)."""

import math
from typing import Any

from keyspread.kernels.compilation import entry, part


@part
def _holds(choices: Any, prefix: Any, prefix_mass: Any, head_mass: Any, workers: Any, tolerance: Any) -> Any:
    """Whether the load that the `prefix` hottest keys and their share of the rest bring fits on their workers."""
    # b_h / n: the share of all workers that prefix * choices hashes meet, in expectation
    covered = -math.expm1(prefix * choices * math.log1p(-1.0 / workers))
    rest_of_head = math.exp(choices * math.log(covered)) * (head_mass - prefix_mass)
    tail = covered * covered * max(0.0, 1.0 - head_mass)
    return prefix_mass + rest_of_head + tail <= covered * (1.0 + workers * tolerance)


@entry
def find_choices(cumulative: Any, workers: Any, tolerance: Any) -> Any:
    """Return the least d from max(2, ceil(p_1 n)) on that satisfies every prefix, `workers` if none below does.

    `cumulative` are the sums of the head's shares, hottest first. Most d fail at the prefix where the d before
    failed, or at the first or the last (Sec. 4.1 names these two as the tight ones), so those are asked first.
    """
    size = cumulative.size
    if workers < 2:
        return workers
    if size == 0:
        return 2
    head_mass = cumulative[size - 1]
    suspect = 1
    choices = max(2, math.ceil(cumulative[0] * workers - 1e-9))
    while choices < workers:
        failed = 0
        for prefix in (suspect, 1, size):
            if not _holds(choices, prefix, cumulative[prefix - 1], head_mass, workers, tolerance):
                failed = prefix
                break
        if failed == 0:
            for prefix in range(2, size):
                if not _holds(choices, prefix, cumulative[prefix - 1], head_mass, workers, tolerance):
                    failed = prefix
                    break
        if failed == 0:
            return choices
        suspect = failed
        choices += 1
    return workers
