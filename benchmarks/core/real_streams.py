"""Windowed imbalance and replicas of the schemes on the real streams, n = 100.

Bars: planned within 2 x the windowed imbalance and 1.1 x the replicas of a first version (FIRST_TRY); words:
partial-key I > 1e-2, d-choices and w-choices < 5e-4; a half-life that lowers the windowed imbalance of w-choices on
cashtags by 1.5 x or more.
"""

import keyspread as ks
from keyspread.streams.files import read_stream

from common import console, real_stream, show, verdict

FIRST_TRY = {"words": (5e-6, 138_000), "cashtags": (1.8e-4, 11_000), "flights3m_origin": (0.0, 802)}
HALF_LIVES = (500, 1000, 2000, 5000)


def main() -> None:
    streams = {name: read_stream(real_stream(f"{name}.tsv.gz")).hashes for name in FIRST_TRY}
    rows = []
    for name, stream in streams.items():
        for scheme in ("partial-key", "d-choices", "w-choices", "planned"):
            result = ks.simulate(stream, scheme, 100)
            judged = ""
            if scheme == "planned":
                windowed, replicas = FIRST_TRY[name]
                judged = verdict(result.windowed_imbalance <= 2 * windowed and result.replicas <= 1.1 * replicas)
            elif name == "words":
                judged = verdict(result.imbalance > 1e-2 if scheme == "partial-key" else result.imbalance < 5e-4)
            rows.append(
                (name, scheme, result.imbalance, result.windowed_imbalance, result.replicas, result.keys, judged)
            )
    show("n = 100", ("stream", "scheme", "imbalance", "windowed", "replicas", "keys", "verdict"), rows)

    stream, rows = streams["cashtags"], []
    plain = ks.simulate(stream, "w-choices", 100)
    for half_life in HALF_LIVES:
        faded = ks.simulate(stream, "w-choices", 100, half_life=half_life)
        gain = plain.windowed_imbalance / faded.windowed_imbalance
        cost = faded.replicas / plain.replicas - 1
        rows.append((half_life, f"{gain:.2f} x", f"{cost:+.1%}", verdict(gain >= 1.5)))
    show(
        "cashtags, w-choices with a half-life",
        ("half-life", "windowed imbalance lower by", "replicas", ">= 1.5 x"),
        rows,
    )
    console.print("Windowed: mean over 50 windows of the largest share of a worker in the window - 1/n.")


if __name__ == "__main__":
    main()
