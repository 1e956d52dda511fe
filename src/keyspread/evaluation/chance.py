"""How uneven loads are by chance alone: what a comparison of schemes must allow for."""

import math

import numpy as np

from keyspread import checks

FEWEST_KEYS = 100
"""Keys per worker: fewer count as this many. A larger imbalance than that is one that a plan removes."""

_LARGEST = 1e6  # mean load above which the excess is scaled: a Poisson variable is then normal to three digits


def busiest_by_chance(messages: float, workers: int, keys: int | None = None) -> float:
    """Return the expected load of the busiest worker if nothing is skewed, as a multiple of the even share.

    Without `keys`, each of `messages` messages is assigned to a random worker. With `keys`, each of so many equally
    frequent keys is assigned to a random worker, which is what key grouping does to uniform keys.

    The loads of n workers are multinomial: independent Poisson variables, less the deviation of their mean. The
    expected maximum is therefore that of n independent Poisson variables with the same mean, up to terms of higher
    order. With keys, the variance of a load relative to its squared mean is n/messages + n/keys.

    >>> round(busiest_by_chance(2000, 16), 2), round(busiest_by_chance(2000, 16, keys=5000), 2)
    (1.16, 1.19)
    """
    workers = checks.whole_number("workers", workers, maximum=2**31 - 1)
    if workers == 1 or messages <= 0:
        return 1.0
    mean = messages / workers
    if keys is not None:
        mean = 1 / (1 / mean + 1 / max(keys / workers, FEWEST_KEYS))
    if mean > _LARGEST:
        return 1 + (busiest_by_chance(_LARGEST * workers, workers) - 1) * math.sqrt(_LARGEST / mean)
    return _largest_of_poisson(mean, workers) / mean


def _largest_of_poisson(mean: float, variables: int) -> float:
    """Return E[max] = sum over k >= 0 of P(max > k) = 1 - P(X <= k)^n."""
    # Beyond mean + 9 sqrt(mean), or 60 where the mean is small, nothing counts: P(X > k) < 1e-16 / n for n < 1e9.
    reach = 9 * math.sqrt(mean) + 60
    lowest, highest = max(0, math.floor(mean - reach)), math.ceil(mean + reach)
    values = np.arange(lowest, highest + 1)
    logs = np.concatenate([[0.0], np.cumsum(math.log(mean) - np.log(values[1:]))])  # p(k) / p(k - 1) = mean / k
    probabilities = np.exp(logs - logs.max())
    above = np.clip(1 - np.cumsum(probabilities) / probabilities.sum(), 0.0, 1.0)
    with np.errstate(divide="ignore"):  # log(0) at P(X > k) = 1: then the maximum is above k too
        exceeds = -np.expm1(variables * np.log1p(-above))
    return lowest + float(exceeds.sum())
