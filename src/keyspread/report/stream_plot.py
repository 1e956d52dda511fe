"""The plot of a stream: the shares of its keys by rank, and the hottest key of each window."""

from itertools import groupby
from typing import Any

from matplotlib.ticker import FuncFormatter, MaxNLocator

from keyspread.report import style
from keyspread.report.labels import Label, label_points
from keyspread.streams.profile import Profile

_HOT, _OTHER, _REST = "#D55E00", "#0072B2", "#666666"
_LONGEST = 16  # characters of a key that are shown


def plot_stream(title: str, result: Profile, labels: dict[int, str], path: str) -> None:
    """Draw the share of each rank on the left and the hottest key of each window on the right."""
    picture, axes = style.picture(1, 2, width=4.4, height=3.3)
    picture.suptitle(title, fontsize=10, fontweight="bold", parse_math=False)
    law, windows = axes[0]
    windows.xaxis.set_major_locator(MaxNLocator(integer=True))
    _plot_law(law, result)
    named = _plot_leaders(windows, result, labels)
    for panel in (law, windows):
        panel.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
        panel.tick_params(labelsize=8)
        panel.title.set_fontsize(9)
        for text in (panel.xaxis.label, panel.yaxis.label):
            text.set_fontsize(9)
    label_points(windows, named, points=list(enumerate(result.p1_over_time, start=1)), all_of_them=False)
    style.save(picture, path)


def _plot_law(axes: Any, result: Profile) -> None:
    fitted = "" if result.exponent is None else f", Zipf exponent {result.exponent:.2f}"
    axes.set(title=f"{result.keys:,} keys{fitted}", xlabel="rank of the key", ylabel="share of all messages")
    if not result.law:
        return
    ranks, shares = zip(*result.law, strict=True)
    hot = sum(share >= result.hot_from * (1 - 1e-12) for share in shares)
    axes.plot(ranks, shares, color=_OTHER, linewidth=1.6)
    axes.plot(ranks[:hot], shares[:hot], color=_HOT, linewidth=2.6)
    axes.set(xscale="log", yscale="log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda rank, _: f"{rank:,.0f}"))
    axes.axhline(result.hot_from, color="#555555", linewidth=0.8, linestyle=":")
    said = f"{result.hot_keys:,} hot key{'' if result.hot_keys == 1 else 's'}: share ≥ {100 * result.hot_from:.2g} %"
    # The curve falls from the left, so the corner below it is empty.
    axes.text(
        0.03,
        0.04,
        f"{said} (dotted line),\nwhich is 1/(5·{result.workers} workers)",
        color=_HOT,
        fontsize=8,
        transform=axes.transAxes,
    )


def _plot_leaders(axes: Any, result: Profile, labels: dict[int, str]) -> list[Label]:
    """Draw the hottest key of each window, and return the names to write: one where a key becomes the hottest."""
    shares = result.p1_over_time
    axes.plot(range(1, len(shares) + 1), shares, color="#bbbbbb", linewidth=1, zorder=2)
    windows = range(1, len(shares) + 1)
    keys = list(dict.fromkeys(key for key, _ in result.leaders))
    often = sorted(keys, key=lambda key: -sum(leader == key for leader, _ in result.leaders))[: len(style.SERIES)]
    looks = {key: (colour, marker) for key, (colour, marker, _) in zip(often, style.SERIES, strict=False)}
    for key in keys:
        colour, marker = looks.get(key, (_REST, "."))
        at = [window for window, (leader, _) in zip(windows, result.leaders, strict=True) if leader == key]
        axes.scatter(at, [shares[window - 1] for window in at], s=26, color=colour, marker=marker, zorder=3)
    drift = f"drift {result.drift:.2f}: {result.drift_in_words}" if len(shares) > 1 else "one window"
    axes.set(title=drift.replace("hottest keys ", "hottest\nkeys "), xlabel="window of equally many messages")
    axes.set(ylabel="share of the hottest key", ylim=(0, 1.18 * max(shares, default=1)))
    axes.set_xlim(0.4, len(shares) + 0.6)
    named = []
    for key, group in groupby(enumerate(result.leaders, start=1), key=lambda window: window[1][0]):
        window, (_, share) = next(iter(group))
        name = labels[key]
        name = name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
        named.append(Label(window, share, name, looks.get(key, (_REST, ""))[0]))
    return named
