"""The table of all verdicts: every claim once, checks apart, and the one in the docs is the one of its results."""

import json
from pathlib import Path

from verdict_table import verdict_table

DOCS = Path(__file__).parents[3] / "docs"


def verdict(claim, outcome="holds", **more):
    return {"claim": claim, "where": "Sec. 1", "measured": "3 %", "outcome": outcome, "why": "", "words": "few"} | (
        {"check": ""} | more
    )


def published(size, seeds, **figures):
    return {
        "size": f"{size}: 10 messages",
        "seeds": seeds,
        "figures": [
            {"name": name.lstrip("_"), "label": f"Figure {name.lstrip('_')}", "runs": 4, "verdicts": verdicts}
            for name, verdicts in figures.items()
        ],
    }


def test_claims_are_counted_and_checks_are_apart():
    text = verdict_table(
        [
            published(
                "quick", "0, 1, 2", _3=[verdict("a"), verdict("b", "does not hold", why="c"), verdict("d", check="e")]
            )
        ]
    )
    claims, checks = text.split("Not counted")
    assert claims.startswith("**2 claims: 1 hold, 0 hold in part, 1 do not hold.**")
    assert "| ✓ holds | Figure 3; Sec. 1 (quick, 3 seeds) | “few” | a | 3 % |  |" in claims
    assert "| ✗ does not hold | Figure 3; Sec. 1 (quick, 3 seeds) | “few” | b | 3 % | c |" in claims
    assert "| d | 3 % | e |" in checks


def test_the_table_in_the_docs_is_that_of_the_published_results():
    parts = json.loads((DOCS / "verdicts.json").read_text(encoding="utf-8"))
    text = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    shown = text.split("<!-- verdicts: begin -->\n")[1].split("<!-- verdicts: end -->")[0]
    assert shown.strip() == verdict_table(parts).strip()
