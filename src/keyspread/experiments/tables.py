"""Tables I, II and III: the streams, the schemes' names, the default parameters; ours beside the paper's."""

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
from keyspread.schemes import PLANNED, online_scheme, resolve
from keyspread.streams import ORIGINALS, ZipfStream, zipf_probabilities
from keyspread.threshold import default_threshold

# Table I
CHEAP = 5 * 10**6
"""Messages up to which a stream is drawn and counted; of a longer one the law tells what to expect."""
WITHIN = 2.0
"""Percent that a look-alike may be off."""
ZIPF_KEYS = (10**4, 10**5, 10**6)
ZIPF_SKEWS = (0.1, 2.0)
ZIPF_MESSAGES = 10**7
NUMBERS = ("messages", "keys", "p1_percent")

# Table II: what we and the paper call them. The paper lists five of them there and speaks of the others in its text.
PAPER_NAMES = {
    "key": "KG",
    "shuffle": "SG",
    "partial-key": "PKG",
    "round-robin": "RR",
    "w-choices": "W-C",
    "d-choices": "D-C",
    "greedy": "Greedy-d",
}
HOT_KEYS = {
    "key": "one hashed worker",
    "shuffle": "any worker, in turn",
    "partial-key": "less loaded of 2 hashed workers",
    "round-robin": "any worker, in turn",
    "w-choices": "least loaded of all n",
    "d-choices": "least loaded of d hashed workers, d computed",
    "greedy": "least loaded of d hashed workers, d given",
    PLANNED: "split by weights over the room that is left",
}
COLD_KEYS_PLANNED = "one worker, by a table of hash buckets"

# Table III: the paper's values.
WORKERS = (5, 10, 20, 50, 100)
SOURCES = 5
TOLERANCE = 1e-4
THRESHOLD = 1 / 5
"""Times 1/n: the default that the text settles on."""
THRESHOLDS = {"2/n": 2.0, "1/n": 1.0, "1/(2n)": 1 / 2, "1/(4n)": 1 / 4, "1/(8n)": 1 / 8}


class Table1(Figure):
    """The streams."""

    name = "table-1"
    label = "Table I"
    title = "Streams of the experiments"
    paper = (
        "Three real streams, Wikipedia pages (WP), words of tweets (TW) and cashtags (CT), with their messages, keys "
        "and the share p_1 of the hottest key; and Zipf streams (ZF) of 10⁷ messages."
    )
    made = (
        "The real streams cannot be passed on; ours are look-alikes, Zipf laws fitted to the three numbers of each, CT "
        "with drift. Where 'size' is below 1 they are scaled down, messages and keys alike, and so are the paper's "
        "numbers beside them. Up to 5 million messages are counted; of a longer stream the law tells what to expect. "
        "Of your own streams, if given, these are the numbers, with nothing to compare."
    )

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Count each stream, or ask its law."""
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
                of_paper = {
                    "size": scale.messages / ZIPF_MESSAGES,
                    "paper_messages": scale.messages,
                    "paper_keys": keys,
                }
                rows.append({"stream": f"Zipf, z = {skew}", "symbol": "ZF", "how": "law"} | law | of_paper)
        paired = [name for number in NUMBERS for name in (number, f"paper_{number}")]
        table = pd.DataFrame(rows).reindex(columns=["symbol", "stream", "size", *paired, "how"])
        whole = dict.fromkeys(("messages", "paper_messages", "keys", "paper_keys"), "Int64")
        return table.astype(whole)

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge whether the look-alikes have the numbers of the originals."""
        alike = table[table["paper_p1_percent"].notna()]
        if alike.empty:
            return []
        off = pd.DataFrame({name: 100 * (alike[name] / alike[f"paper_{name}"] - 1).astype(float) for name in NUMBERS})
        close = (off.abs() <= WITHIN).all(axis=1)
        said = [
            f"{symbol}: messages {messages:+.1f} %, keys {keys:+.1f} %, p_1 {share:+.1f} %"
            for symbol, messages, keys, share in zip(
                alike["symbol"], *(off[name].round(1) + 0.0 for name in NUMBERS), strict=True
            )
        ]
        others = ", ".join(alike.loc[~close, "symbol"])
        return [
            judge(
                f"Our streams have the messages, keys and p_1 of Table I (scaled, within {WITHIN:.0f} %)",
                "Table I",
                "; ".join(said),
                bool(close.all()),
                in_part=bool(close.any()),
                why=f"Not so for {others}.",
            )
        ]


def _numbers(stream: StreamRecipe, own: bool) -> dict[str, Any]:
    """Give messages, keys and p_1: counted, or expected where counting a made stream would take long."""
    if isinstance(stream, ZipfStream) and stream.messages > CHEAP and not own:
        law = zipf_probabilities(stream.skew, stream.keys)
        occurring = -np.expm1(-stream.messages * law).sum()
        found = (stream.messages, round(float(occurring)), 100 * float(law[0]), "expected")
    else:
        counted = stream.encoded()
        hottest = int(counted.counts.max()) if counted.messages else 0
        found = (counted.messages, counted.keys, 100 * hottest / max(1, counted.messages), "counted")
    return dict(zip((*NUMBERS, "how"), found, strict=True))


class Table2(Figure):
    """The schemes' names."""

    name = "table-2"
    label = "Table II"
    title = "Names of the schemes"
    paper = (
        "D-C, W-C and RR treat the hot keys in a way of their own; PKG and SG treat all keys alike. "
        "KG and Greedy-d occur in the text only."
    )
    made = (
        "Our names and aliases; whether a scheme tells hot keys from others is asked of the code. "
        "'planned' is ours: it looks at a batch before dealing it."
    )

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """List the schemes, hot and cold keys apart where the scheme tells them apart."""
        rows = []
        for name in PAPER_NAMES:
            scheme = resolve(name)
            cold = HOT_KEYS["partial-key"] if scheme.tracks_head else HOT_KEYS[name]
            alias = ", ".join(scheme.aliases) or "–"
            rows.append((PAPER_NAMES[name], name, alias, HOT_KEYS[name], cold, _apart(scheme.tracks_head)))
        rows.append(("–", PLANNED, "–", HOT_KEYS[PLANNED], COLD_KEYS_PLANNED, _apart(True)))
        return pd.DataFrame(rows, columns=["in_the_paper", "name", "alias", "hot_keys", "other_keys", "hot_and_others"])

    def verdicts(self, table: pd.DataFrame) -> list[Verdict]:
        """Judge nothing: names are no claims."""
        return []


def _apart(tracks_head: bool) -> str:
    return "told apart" if tracks_head else "treated alike"


class Table3(Figure):
    """The default parameters."""

    name = "table-3"
    label = "Table III"
    title = "Default parameters"
    paper = (
        "5, 10, 20, 50 and 100 workers, 5 sources, a tolerance of 10⁻⁴, and thresholds from 2/n, halved again and "
        "again, to 1/(8n); the text settles on 1/(5n)."
    )
    made = (
        "Read from the code: what a sender and a run take when nothing is said. The number of workers has no default: "
        "listed are those of the paper's that a sender takes, with each of its thresholds. The paper gives no number "
        "of counters; ours is 2/θ."
    )

    def table(self, scale: Scale, results: pd.DataFrame) -> pd.DataFrame:
        """Read the defaults and put the paper's beside them."""
        tolerance = _default(Settings.of, "tolerance")
        sources = _default(Run, "sources")
        taken = [n for n in WORKERS if all(_takes(n, times / n) for times in THRESHOLDS.values())]
        fifth = {round(default_threshold(n) * n, 12) for n in WORKERS}
        counters = {Settings.of(online_scheme("d-choices"), n).capacity / n for n in WORKERS}
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
        told = table[table["equal"].notna()]
        equal = told["equal"].astype(bool)
        differing = told.loc[~equal]
        return [
            judge(
                "The defaults are those of the paper",
                "Table III",
                f"{int(equal.sum())} of {len(told)} equal: "
                + "; ".join(f"{what} {ours}" for what, ours in zip(told["meaning"], told["ours"], strict=True)),
                bool(equal.all()),
                in_part=bool(equal.any()),
                why="Different: "
                + "; ".join(
                    f"{meaning}, {ours} for {theirs}"
                    for meaning, ours, theirs in zip(
                        differing["meaning"], differing["ours"], differing["paper"], strict=True
                    )
                )
                + ".",
            )
        ]


def _default(function: Any, parameter: str) -> Any:
    return inspect.signature(function).parameters[parameter].default


def _takes(workers: int, threshold: float) -> bool:
    """Say whether a sender takes this threshold, as it is."""
    try:
        return Settings.of(online_scheme("d-choices"), workers, threshold=threshold).threshold == threshold
    except InputError:
        return False


def _listed(values: Any) -> str:
    return ", ".join(str(value) for value in values)


def _times(fractions: set[float]) -> str:
    """Write one part of 1/n: 0.2 as 1/(5n)."""
    return _listed(f"1/({1 / f:.0f}n)" if math.isclose(1 / f, round(1 / f)) else f"{f:g}/n" for f in sorted(fractions))
