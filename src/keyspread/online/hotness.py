"""When a key is hot for sure: the rule that keeps the first messages from scattering cold keys."""

import math


def margin(expected: float) -> float:
    """Say how far above `expected`, the count of a key right at the threshold, a count must lie to be called hot.

    In the first messages every key is 'frequent', and later a key just below the threshold passes it now and
    then by chance; each time its messages go to workers that never had it. So a count must be above the threshold
    by its standard deviation (of a Poisson count: the root), and by 2 at the very least. A hot key passes soon:
    the margin is small against a count that grows with the stream.

        expected   0   1    4   100   10000
        margin     2   3    4    12     102

    `./dev bench warm_up` measures what it saves: without it W-Choices makes up to 15 % more replicas.
    """
    return 2 + math.sqrt(expected)
