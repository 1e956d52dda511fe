"""The search for the number of choices (Prop. 4.1)."""

import math

from keyspread.kernels.array_types import Floats
from keyspread.kernels.compilation import entry, part


@part
def _prefix_fits(
    choices: int, prefix: int, prefix_mass: float, head_mass: float, workers: int, tolerance: float
) -> bool:
    """Return whether the `prefix` hottest keys, and what else falls on their workers, fit on these workers."""
    # b_h / n: the share of all workers that prefix * choices hashes reach, in expectation.
    # 2 keys, 3 choices, 10 workers: 1 - 0.9^6 = 0.47
    covered = -math.expm1(prefix * choices * math.log1p(-1.0 / workers))
    rest_of_head = math.exp(choices * math.log(covered)) * (head_mass - prefix_mass)
    tail = covered * covered * max(0.0, 1.0 - head_mass)
    return prefix_mass + rest_of_head + tail <= covered * (1.0 + workers * tolerance)


@entry
def find_choices(cumulative: Floats, workers: int, tolerance: float) -> int:
    """Return the least d >= max(2, ceil(p_1 n)) for which every prefix of the head fits; `workers` if there is none.

    `cumulative` holds the sums of the head's shares, hottest first: shares 0.3 0.1 are 0.3 0.4. Most d fail at the
    prefix where the d before failed, or at the first or the last prefix (Sec. 4.1 names these two as the tight ones),
    so those are tested first.
    """
    size = cumulative.size
    if workers < 2:
        return workers
    if size == 0:
        return 2
    head_mass = cumulative[size - 1]
    suspect = 1
    choices: int = max(2, math.ceil(cumulative[0] * workers - 1e-9))
    while choices < workers:
        failed = 0
        for prefix in (suspect, 1, size):
            if not _prefix_fits(choices, prefix, cumulative[prefix - 1], head_mass, workers, tolerance):
                failed = prefix
                break
        if failed == 0:
            for prefix in range(2, size):
                if not _prefix_fits(choices, prefix, cumulative[prefix - 1], head_mass, workers, tolerance):
                    failed = prefix
                    break
        if failed == 0:
            return choices
        suspect = failed
        choices += 1
    return workers
