"""The plot of a stream: the shares of its keys by rank, and the hottest key of each window."""

from typing import Any

from matplotlib.ticker import FuncFormatter, MaxNLocator

from keyspread.report import style
from keyspread.streams.profile import HOT_SHARE, Profile


def plot_stream(title: str, result: Profile, labels: dict[int, str], path: str) -> None:
    """Draw the share of each rank on the left and the hottest key of each window on the right."""
    picture, axes = style.picture(1, 2, width=4.4, height=3.1)
    picture.suptitle(title, fontsize=10, fontweight="bold", parse_math=False)
    law, windows = axes[0]
    _plot_law(law, result)
    _plot_leaders(windows, result, labels)
    windows.xaxis.set_major_locator(MaxNLocator(integer=True))
    for panel in (law, windows):
        panel.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
        panel.title.set_fontsize(9.5)
        for text in (panel.xaxis.label, panel.yaxis.label):
            text.set_fontsize(9)
        panel.tick_params(labelsize=8)
    style.save(picture, path)


def _plot_law(axes: Any, result: Profile) -> None:
    fitted = "" if result.exponent is None else f", Zipf exponent {result.exponent:.2f}"
    axes.set(title=f"{result.keys:,} keys{fitted}", xlabel="rank of the key", ylabel="share of all messages")
    if not result.law:
        return
    style.line(axes, [rank for rank, _ in result.law], [share for _, share in result.law], 0, "")
    axes.set(xscale="log", yscale="log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda rank, _: f"{rank:,.0f}"))
    axes.axhline(HOT_SHARE, color="#555555", linewidth=0.8, linestyle=":")
    place = {"xycoords": ("axes fraction", "data"), "xytext": (0, 2), "textcoords": "offset points", "ha": "right"}
    axes.annotate(
        f"{result.hot_keys:,} hot keys (share ≥ {100 * HOT_SHARE:.1f} %)", (1, HOT_SHARE), fontsize=8, **place
    )


def _plot_leaders(axes: Any, result: Profile, labels: dict[int, str]) -> None:
    shares = result.p1_over_time
    axes.plot(range(1, len(shares) + 1), shares, color="#bbbbbb", linewidth=1, zorder=2)
    leads: dict[int, list[int]] = {}
    for place, (key, _) in enumerate(result.leaders):
        leads.setdefault(key, []).append(place)
    groups = [(labels[key], places) for key, places in sorted(leads.items(), key=lambda lead: -len(lead[1]))]
    looks = [(colour, marker) for colour, marker, _ in style.SERIES]
    if len(groups) > len(looks):
        few = len(looks) - 1
        rest = [place for _, places in groups[few:] for place in places]
        groups = [*groups[:few], (f"{len(groups) - few} others", rest)]
        looks[few] = ("#888888", ".")
    for (_, places), (colour, marker) in zip(groups, looks, strict=False):
        at = [place + 1 for place in places]
        axes.scatter(at, [shares[place] for place in places], s=26, color=colour, marker=marker, zorder=3)
    axes.set(title=f"drift {result.drift:.2f}", xlabel="window", ylabel="share of the hottest key")
    axes.set_ylim(0, 1.1 * max(shares, default=1))
    numbered = [str(place) for place in range(len(groups))]
    if groups:
        look = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "frameon": False, "fontsize": 8}
        legend = axes.legend(
            axes.collections, numbered, title="hottest key", title_fontsize=8, handletextpad=0.2, **look
        )
        for text, (label, _) in zip(legend.get_texts(), groups, strict=True):
            text.set_parse_math(False)  # set the text after this: matplotlib would interpret a '$' in a name
            text.set_text(label if len(label) <= 18 else label[:17] + "…")
