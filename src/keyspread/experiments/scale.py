"""The size of the experiments: `quick` shows the shapes within minutes, `paper` uses the paper's sizes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from keyspread import checks
from keyspread.errors import InputError
from keyspread.evaluation.run import StreamRecipe
from keyspread.streams import look_alike

if TYPE_CHECKING:
    from keyspread.deployment.measurements import Deployment


@dataclass(frozen=True)
class Scale:
    """Sizes and seeds of the experiments. Each seed has its own streams and its own hash functions."""

    name: str
    messages: int
    skews: tuple[float, ...]
    seeds: tuple[int, ...]
    wikipedia: float
    twitter: float
    cashtags: float
    data: tuple[StreamRecipe, ...] = ()
    """Streams of the user, which replace the look-alikes."""
    deployment: "Deployment | None" = None
    """The measurement on a running engine, for figures 13 and 14."""

    def wikipedia_stream(self, seed: int) -> StreamRecipe:
        """Return the user's wikibench trace, or else the look-alike of WP."""
        traces = [stream for stream in self.data if getattr(stream, "format", None) == "wikibench"]
        return traces[0] if traces else look_alike("wp", self.wikipedia, seed)

    def real_streams(self, seed: int) -> dict[str, StreamRecipe]:
        """Return the streams of figures 11 and 12 by their symbol."""
        if self.data:
            return {stream.title: stream for stream in self.data}
        sizes = {"WP": self.wikipedia, "TW": self.twitter, "CT": self.cashtags}
        return {symbol: look_alike(symbol, size, seed) for symbol, size in sizes.items()}


PAPER_SKEWS = tuple(tenths / 10 for tenths in range(1, 21))
SCALES = {
    "quick": Scale("quick", 10**6, PAPER_SKEWS[1::2], (0, 1, 2), wikipedia=0.05, twitter=0.001, cashtags=1.0),
    # TW has 1.2 G messages and 31 M keys. All of it would take a day for a figure that does not depend on the size.
    "paper": Scale("paper", 10**7, PAPER_SKEWS, (0, 1, 2), wikipedia=1.0, twitter=0.05, cashtags=1.0),
}


def find_scale(name: str, seeds: int | None = None, data: Sequence[StreamRecipe] = ()) -> Scale:
    """Return the scale with this name, with another number of seeds or with the user's streams if given."""
    scale = SCALES.get(name.lower())
    if scale is None:
        raise InputError(f"size must be one of {', '.join(SCALES)}, got {name!r}")
    if seeds is not None:
        scale = replace(scale, seeds=tuple(range(checks.whole_number("seeds", seeds))))
    return replace(scale, data=tuple(data))
