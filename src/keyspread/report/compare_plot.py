"""Replicas against windowed imbalance, a point a scheme: what lies lowest and farthest left is best."""

from collections.abc import Sequence

from matplotlib.ticker import FuncFormatter

from keyspread.evaluation.compare import Compared, frontier
from keyspread.report import style

_FLOOR = 1e-7


def plot_comparison(title: str, compared: Sequence[Compared], path: str) -> None:
    """Draw all schemes, and a line through those that no other beats in both."""
    made, axes = style.picture(width=5.6, height=3.8)
    at = axes[0, 0]
    unbeaten = frontier(compared)
    at.plot(
        [one.replicas_per_key for one in unbeaten],
        [max(one.windowed_imbalance, _FLOOR) for one in unbeaten],
        color="#bbbbbb",
        linewidth=1,
        zorder=1,
    )
    for one in compared:
        style.point(at, one.replicas_per_key, max(one.windowed_imbalance, _FLOOR), one.scheme)
    at.set(xscale="log", yscale="log", xlabel="replicas a key", ylabel="imbalance within windows")
    for axis_ticks in (at.xaxis.set_major_formatter, at.xaxis.set_minor_formatter):
        axis_ticks(FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "1235" else ""))
    at.set_title(title, fontsize=9.5, parse_math=False)
    at.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)
    style.save(made, path)
