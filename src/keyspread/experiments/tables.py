"""Tables I, II and III: the streams, the names of the schemes and the default parameters, next to the paper's."""

import inspect
import math
from typing import Any

import numpy as np
import pandas as pd

from keyspread.errors import InputError
from keyspread.evaluation.run import Run, StreamRecipe
from keyspread.experiments.figure import Figure
from keyspread.experiments.scale import Scale
from keyspread.experiments.verdict import Verdict, judge
from keyspread.online.settings import Settings
from keyspread.report.style import ABBREVIATIONS
from keyspread.schemes import PLANNED, online_scheme, resolve
from keyspread.streams import ORIGINALS, ZipfStream, zipf_probabilities
from keyspread.threshold import default_threshold

# Table I
CHEAP = 5 * 10**6
"""Largest number of messages to draw and count; the numbers of a longer stream are the expectation of its law."""
WITHIN = 2.0
"""Largest difference in percent between a look-alike and the original."""
ZIPF_KEYS = (10**4, 10**5, 10**6)
ZIPF_SKEWS = (0.1, 2.0)
ZIPF_MESSAGES = 10**7
NUMBERS = ("messages", "keys", "p1_percent")

# Table II: the worker of a message with a hot key, and with another key. The paper's table lists five of the schemes.
HOT_KEYS = {
    "key": "one worker, by hash",
    "shuffle": "all workers in turn",
    "partial-key": "less loaded of 2 workers, by hash",
    "round-robin": "all workers in turn",
    "w-choices": "least loaded of all workers",
    "d-choices": "least loaded of d workers, by hash; d is computed",
    "greedy": "least loaded of d workers, by hash; d is given",
    PLANNED: "split over the workers with capacity left, by weights",
}
OTHER_KEYS_PLANNED = "one worker, by a table of hash buckets"

# Table III: the paper's values.
WORKERS = (5, 10, 20, 50, 100)
SOURCES = 5
TOLERANCE = 1e-4
THRESHOLD = 1 / 5
"""Times 1/n: the default that the paper's text settles on."""
THRESHOLDS = {"2/n": 2.0, "1/n": 1.0, "1/(2n)": 1 / 2, "1/(4n)": 1 / 4, "1/(8n)": 1 / 8}


class Table1(Figure):
    """The streams of the experiments."""

    name = "table-1"
    label = "Table I"
    title = "Streams of the experiments"
    paper = (
        "Three real streams: Wikipedia pages (WP), words of tweets (TW) and cashtags (CT), with their numbers of "
        "messages and keys and the share p_1 of the hottest key. Zipf streams (ZF) of 10⁷ messages."
    )
    method = (
        "The real streams cannot be redistributed. Ours are look-alikes: Zipf laws fitted to the three numbers of "
        "each stream; the one of CT drifts. If 'size' is below 1, the messages and keys of a look-alike are scaled "
        "down, and the paper's numbers next to them too. Streams of up to 5 million messages are counted; for longer "
        "ones the table shows the expectation. Your own streams (--input) replace the look-alikes, without numbers "
        "to compare."
    )

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Count each stream, or compute the expectation of its law."""
        sizes = {"WP": scale.wikipedia, "TW": scale.twitter, "CT": scale.cashtags}
        rows = []
        for symbol, stream in scale.real_streams(scale.seeds[0]).items():
            row = {"stream": stream.title, "symbol": "" if scale.data else symbol} | _numbers(stream, bool(scale.data))
            if not scale.data:
                original, size = ORIGINALS[symbol.lower()], sizes[symbol]
                row |= {
                    "size": size,
                    "paper_messages": round(original.messages * size),
                    "paper_keys": round(original.keys * size),
                    "paper_p1_percent": 100 * original.p1,
                }
            rows.append(row)
        for keys in ZIPF_KEYS:
            for skew in ZIPF_SKEWS:
                law = {"messages": scale.messages, "keys": keys, "p1_percent": 100 * zipf_probabilities(skew, keys)[0]}
                original_sizes = {
                    "size": scale.messages / ZIPF_MESSAGES,
                    "paper_messages": scale.messages,
                    "paper_keys": keys,
                }
                rows.append({"stream": f"Zipf, z = {skew}", "symbol": "ZF", "how": "law"} | law | original_sizes)
        paired = [name for number in NUMBERS for name in (number, f"paper_{number}")]
        table = pd.DataFrame(rows).reindex(columns=["symbol", "stream", "size", *paired, "how"])
        whole = dict.fromkeys(("messages", "paper_messages", "keys", "paper_keys"), "Int64")
        return table.astype(whole)

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge whether the look-alikes have the numbers of the original streams."""
        look_alikes = table[table["paper_p1_percent"].notna()]
        if look_alikes.empty:
            return []
        off = pd.DataFrame(
            {name: 100 * (look_alikes[name] / look_alikes[f"paper_{name}"] - 1).astype(float) for name in NUMBERS}
        )
        close = (off.abs() <= WITHIN).all(axis=1)
        differences = [
            f"{symbol}: messages {messages:+.1f} %, keys {keys:+.1f} %, p_1 {share:+.1f} %"
            for symbol, messages, keys, share in zip(
                look_alikes["symbol"], *(off[name].round(1) + 0.0 for name in NUMBERS), strict=True
            )
        ]
        others = ", ".join(look_alikes.loc[~close, "symbol"])
        return [
            judge(
                f"Our look-alikes have the messages, keys and p_1 of Table I (scaled, within {WITHIN:.0f} %)",
                "Table I",
                "; ".join(differences),
                bool(close.all()),
                in_part=bool(close.any()),
                why=f"The numbers of {others} differ by more.",
                check="An input: the look-alikes were fitted to these numbers.",
            )
        ]


def _numbers(stream: StreamRecipe, of_user: bool) -> dict[str, Any]:
    """Return messages, keys and p_1: counted, or expected if drawing a look-alike would take long."""
    if isinstance(stream, ZipfStream) and stream.messages > CHEAP and not of_user:
        law = zipf_probabilities(stream.skew, stream.keys)
        occurring = -np.expm1(-stream.messages * law).sum()
        found = (stream.messages, round(float(occurring)), 100 * float(law[0]), "expected")
    else:
        counted = stream.encoded()
        hottest = int(counted.counts.max()) if counted.messages else 0
        found = (counted.messages, counted.keys, 100 * hottest / max(1, counted.messages), "counted")
    return dict(zip((*NUMBERS, "how"), found, strict=True))


class Table2(Figure):
    """The names of the schemes."""

    name = "table-2"
    label = "Table II"
    title = "Names of the schemes"
    paper = (
        "D-C, W-C and RR treat hot keys differently from other keys; PKG and SG treat all keys alike. "
        "KG and Greedy-d occur in the text only."
    )
    method = (
        "Our names and aliases. Whether a scheme tracks hot keys is read from the code. 'planned' is not in the "
        "paper: it counts a batch before routing it."
    )

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """List the schemes, and the workers of hot keys and of other keys."""
        rows = []
        for name, abbreviation in ABBREVIATIONS.items():
            scheme = resolve(name)
            others = HOT_KEYS["partial-key"] if scheme.tracks_head else HOT_KEYS[name]
            alias = ", ".join(scheme.aliases) or "–"
            rows.append((abbreviation, name, alias, HOT_KEYS[name], others, scheme.tracks_head))
        rows.append(("–", PLANNED, "–", HOT_KEYS[PLANNED], OTHER_KEYS_PLANNED, resolve(PLANNED).tracks_head))
        return pd.DataFrame(
            rows, columns=["in_the_paper", "name", "alias", "hot_keys", "other_keys", "tracks_hot_keys"]
        )

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Return nothing: names are not claims."""
        return []


class Table3(Figure):
    """The default parameters."""

    name = "table-3"
    label = "Table III"
    title = "Default parameters"
    paper = (
        "5, 10, 20, 50 and 100 workers, 5 sources, a tolerance of 10⁻⁴, and thresholds of 2/n, 1/n, 1/(2n), 1/(4n) and "
        "1/(8n); the text settles on 1/(5n)."
    )
    method = (
        "The defaults of a sender and of a simulation, read from the code. The number of workers has no default: the "
        "table lists those of the paper that a sender accepts, with each of its thresholds. The paper gives no number "
        "of counters; ours is 2/θ."
    )

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Read the defaults from the code and compare them with the paper's."""
        tolerance = _default(Settings.of, "tolerance")
        sources = _default(Run, "sources")
        taken = [n for n in WORKERS if all(_takes(n, times / n) for times in THRESHOLDS.values())]
        fifth = {round(default_threshold(n) * n, 12) for n in WORKERS}
        counters = {Settings.of(online_scheme("d-choices"), n).counters / n for n in WORKERS}
        rows = [
            ("n", "workers", _listed(taken), _listed(WORKERS), taken == list(WORKERS)),
            ("s", "sources", str(sources), str(SOURCES), sources == SOURCES),
            ("ε", "tolerance of D-Choices", f"{tolerance:g}", f"{TOLERANCE:g}", tolerance == TOLERANCE),
            ("θ", "threshold, default", _times(fifth), _times({THRESHOLD}), fifth == {THRESHOLD}),
            (
                "θ",
                "threshold, range",
                _listed(name for name, times in THRESHOLDS.items() if all(_takes(n, times / n) for n in WORKERS)),
                _listed(THRESHOLDS),
                len(taken) == len(WORKERS),
            ),
            ("–", "counters of a sender", _listed(f"{times:g}n" for times in sorted(counters)), "–", None),
        ]
        table = pd.DataFrame(rows, columns=["parameter", "meaning", "ours", "paper", "equal"])
        return table.astype({"equal": "boolean"})

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge whether the defaults are the paper's."""
        compared = table[table["equal"].notna()]
        equal = compared["equal"].astype(bool)
        differing = compared.loc[~equal]
        return [
            judge(
                "The defaults are those of the paper",
                "Table III",
                f"{int(equal.sum())} of {len(compared)} equal: "
                + "; ".join(f"{what} {ours}" for what, ours in zip(compared["meaning"], compared["ours"], strict=True)),
                bool(equal.all()),
                in_part=bool(equal.any()),
                why="Different: "
                + "; ".join(
                    f"{meaning}: {ours} instead of {theirs}"
                    for meaning, ours, theirs in zip(
                        differing["meaning"], differing["ours"], differing["paper"], strict=True
                    )
                )
                + ".",
                check="An input: these values were taken from the paper.",
            )
        ]


def _default(function: Any, parameter: str) -> Any:
    return inspect.signature(function).parameters[parameter].default


def _takes(workers: int, threshold: float) -> bool:
    """Return whether a sender accepts this threshold unchanged."""
    try:
        return Settings.of(online_scheme("d-choices"), workers, threshold=threshold).threshold == threshold
    except InputError:
        return False


def _listed(values: Any) -> str:
    return ", ".join(str(value) for value in values)


def _times(fractions: set[float]) -> str:
    """Return fractions of 1/n as text: 0.2 as 1/(5n)."""
    return _listed(f"1/({1 / f:.0f}n)" if math.isclose(1 / f, round(1 / f)) else f"{f:g}/n" for f in sorted(fractions))
