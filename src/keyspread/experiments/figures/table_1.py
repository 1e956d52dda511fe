"""Table I: the streams of the experiments, next to the paper's."""

from typing import Any

import numpy as np
import pandas as pd

from keyspread.evaluation.run import StreamRecipe
from keyspread.experiments.figure import Figure
from keyspread.experiments.scale import Scale
from keyspread.experiments.verdict import Verdict, judge
from keyspread.streams import ORIGINALS, ZipfStream, zipf_probabilities

CHEAP = 5 * 10**6
"""Largest number of messages to draw and count; the numbers of a longer stream are the expectation of its law."""
WITHIN = 2.0
"""Largest difference in percent between a look-alike and the original."""
ZIPF_KEYS = (10**4, 10**5, 10**6)
ZIPF_SKEWS = (0.1, 2.0)
ZIPF_MESSAGES = 10**7
NUMBERS = ("messages", "keys", "p1_percent")


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
