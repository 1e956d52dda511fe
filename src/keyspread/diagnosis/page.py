"""A diagnosis as HTML: one page without scripts or other files, light and dark, readable on a phone.

Every text that comes from a log or from data goes through `_text`: applications may call themselves `<script>`.
"""

import html
from collections.abc import Sequence

from keyspread.diagnosis.diagnosis import Bars, Diagnosis, Finding, Remedy
from keyspread.diagnosis.text import (
    cost_text,
    facts_line,
    imports,
    kind_name,
    load_texts,
    one_line,
    others_title,
    per_what,
    where_text,
)

_PARTS = ("even", "skew", "stragglers", "waiting")
_HEIGHT, _BASE = 96, 100

_STYLE = """
.ks { --ink: #1b1f24; --quiet: #5b6470; --paper: #ffffff; --card: #f6f7f9; --line: #dfe3e8; --even: #5b8fc7;
  --skew: #d9660a; --straggle: #8a6fb0; --wait: #b9c0c9; --good: #1a7f4b; --bad: #b3400a; --code: #eceff3;
  color: var(--ink); background: var(--paper); font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto,
  "Helvetica Neue", Arial, sans-serif; overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) { .ks { --ink: #e6e9ed; --quiet: #9aa4b0; --paper: #14171b; --card: #1d2126;
  --line: #333a42; --even: #6ea3dc; --skew: #f08a35; --straggle: #a88fd0; --wait: #56606b; --good: #4cc38a;
  --bad: #ff9b5c; --code: #272d34; } }
.ks * { box-sizing: border-box; }
.ks h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .15rem; }
.ks h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
.ks h3 { font-size: 1.05rem; line-height: 1.35; margin: 0; }
.ks p { margin: .3rem 0; max-width: 78ch; }
.ks .quiet { color: var(--quiet); font-size: .88rem; }
.ks .verdict { font-size: 1.2rem; font-weight: 650; margin: 1rem 0 1.2rem; padding: .7rem 1rem; border-radius: .5rem;
  border-left: .35rem solid var(--good); background: var(--card); max-width: none; }
.ks .verdict.bad { border-color: var(--skew); }
.ks .card { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem 1.1rem;
  margin: 0 0 1rem; }
.ks .head { display: flex; flex-wrap: wrap; gap: .1rem 1rem; justify-content: space-between; align-items: baseline; }
.ks .lost { color: var(--bad); font-weight: 650; font-variant-numeric: tabular-nums; }
.ks .time { display: flex; height: 1.1rem; border-radius: .3rem; overflow: hidden; margin: .7rem 0 .3rem; }
.ks .time span { display: block; min-width: 0; }
.ks .even { background: var(--even); } .ks .skew { background: var(--skew); }
.ks .stragglers { background: var(--straggle); } .ks .waiting { background: var(--wait); }
.ks .legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; color: var(--quiet); font-size: .85rem; }
.ks .legend i { display: inline-block; width: .75em; height: .75em; border-radius: .15em; margin-right: .35em; }
.ks svg { display: block; width: 100%; height: 7rem; margin: .9rem 0 .2rem; }
.ks svg .t { fill: var(--even); } .ks svg .t.hot { fill: var(--skew); } .ks svg line { stroke: var(--quiet); }
.ks ul { margin: .5rem 0; padding-left: 1.1rem; } .ks li { margin: .15rem 0; }
.ks .do { border-top: 1px solid var(--line); margin-top: .8rem; padding-top: .5rem; }
.ks pre { background: var(--code); border-radius: .35rem; padding: .5rem .7rem; margin: .3rem 0 .6rem; overflow-x: auto;
  font: .88rem/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: normal; }
@media (max-width: 600px) { .ks pre { white-space: pre-wrap; overflow-wrap: anywhere; } .ks .card { padding: .8rem; } }
.ks .scroll { overflow-x: auto; }
.ks table { border-collapse: collapse; font-size: .9rem; width: 100%; }
.ks th, .ks td { text-align: left; vertical-align: top; padding: .35rem .9rem .35rem 0; border-bottom: 1px solid
  var(--line); }
.ks th { color: var(--quiet); font-weight: 500; white-space: nowrap; }
.ks td.n, .ks th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.ks td.w { min-width: 14rem; }
.ks hr { border: 0; border-top: 1px solid var(--line); margin: 2.5rem 0; }
"""
_PAGE_STYLE = """
html { background: #ffffff; } @media (prefers-color-scheme: dark) { html { background: #14171b; } }
body { margin: 0; } main.ks { max-width: 60rem; margin: 0 auto; padding: 1.6rem 1.1rem 4rem; }
@media print { .ks .card { break-inside: avoid; } }
"""


def page(diagnoses: Sequence[Diagnosis]) -> str:
    """Return a whole page with every diagnosis."""
    title = _text(diagnoses[0].title) if len(diagnoses) == 1 else f"{len(diagnoses)} applications"
    parts = "\n<hr>\n".join(_body(diagnosis) for diagnosis in diagnoses)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}: where the time went</title>
<style>{_STYLE}{_PAGE_STYLE}</style>
</head>
<body>
<main class="ks">
{parts}
</main>
</body>
</html>
"""


def fragment(diagnosis: Diagnosis) -> str:
    """Return a diagnosis for a notebook: the style applies to nothing else on its page."""
    return f'<style>{_STYLE}</style>\n<div class="ks" style="padding: .5rem 1rem">\n{_body(diagnosis)}\n</div>'


def _body(diagnosis: Diagnosis) -> str:
    parts = [
        f"<header><h1>{_text(diagnosis.title)}</h1>",
        f'<p class="quiet">{_text(facts_line(diagnosis))}</p>',
        f'<p class="verdict{" bad" if diagnosis.skew else ""}">{_text(diagnosis.verdict)}</p></header>',
    ]
    parts += [_card(number, finding) for number, finding in enumerate(diagnosis.skew, 1)]
    if imports(diagnosis):
        parts.append(f'<p class="quiet">The lines need: <code>{_text(imports(diagnosis))}</code></p>')
    if diagnosis.others:
        parts.append(f"<h2>{others_title(diagnosis)}</h2>")
        rows = "".join(_other_row(finding) for finding in diagnosis.others)
        head = '<tr><th>what</th><th>stage</th><th class="n">at most</th><th>why</th></tr>'
        parts.append(f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>')
    if diagnosis.longest:
        parts.append("<h2>Longest stages</h2>")
        parts.append(_longest(diagnosis))
    parts += [f'<p class="quiet">Note: {_text(note)}.</p>' for note in diagnosis.notes]
    return "\n".join(parts)


def _card(number: int, finding: Finding) -> str:
    head = (
        f"{number}. {finding.operator} by {', '.join(finding.keys)}"
        if finding.operator
        else f"{number}. {finding.text}"
    )
    parts = [
        f'<section class="card"><div class="head"><h3>{_text(head)}</h3>',
        f'<span class="lost">{_text(cost_text(finding))}</span></div>',
        f'<p class="quiet">{_text(where_text(finding))}</p>',
        _time_bar(finding),
        _task_bars(finding.bars) if finding.bars is not None else "",
        "<ul>",
        *(f"<li>{_text(text)}</li>" for text in load_texts(finding)),
        f"<li>Adaptive execution: {_text(finding.adaptive)}</li>" if finding.adaptive else "",
        "</ul>",
        _values(finding),
        '<div class="do">',
        *(_remedy(remedy, bool(place)) for place, remedy in enumerate(finding.remedies)),
        "</div></section>",
    ]
    return "\n".join(part for part in parts if part)


def _time_bar(finding: Finding) -> str:
    total = sum(finding.time.get(name, 0.0) for name in _PARTS)
    if total <= 0:
        return ""
    spans, legend = [], []
    for name in _PARTS:
        seconds = finding.time.get(name, 0.0)
        if seconds < 0.05 and name not in ("even", "skew"):
            continue
        spans.append(f'<span class="{name}" style="width: {100 * seconds / total:.2f}%"></span>')
        legend.append(f'<span><i class="{name}"></i>{name} {seconds:.1f} s</span>')
    return f'<div class="time">{"".join(spans)}</div><div class="legend">{"".join(legend)}</div>'


def _task_bars(bars: Bars) -> str:
    """Return one bar per task: its height is its time; tasks with much more than the mean load stand out."""
    if len(bars.heights) < 2:
        return ""
    most = max(bars.heights) or 1.0
    mean = sum(bars.loads) / len(bars.loads)
    mean_seconds = sum(bars.heights) / len(bars.heights)
    step = 1000 / len(bars.heights)
    gap = min(step * 0.18, 6)
    marks = []
    for place, (seconds, load) in enumerate(zip(bars.heights, bars.loads, strict=True)):
        height = max(_HEIGHT * seconds / most, 0.8)
        hot = " hot" if mean and load > 1.5 * mean else ""
        marks.append(
            f'<rect class="t{hot}" x="{place * step + gap / 2:.2f}" y="{_BASE - height:.2f}" '
            f'width="{step - gap:.2f}" height="{height:.2f}"><title>{_tip(bars, seconds, load)}</title></rect>'
        )
    line = _BASE - _HEIGHT * mean_seconds / most
    marks.append(
        f'<line x1="0" x2="1000" y1="{line:.2f}" y2="{line:.2f}" stroke-dasharray="4 4" '
        'vector-effect="non-scaling-stroke"/>'
    )
    more = f"; {bars.left_out:,} more tasks are left out" if bars.left_out else ""
    return (
        f'<svg viewBox="0 0 1000 {_BASE}" preserveAspectRatio="none" role="img" aria-label="Tasks">'
        f"{''.join(marks)}</svg>"
        f'<p class="quiet">{_caption(bars, most, mean_seconds)}{more}.</p>'
    )


def _tip(bars: Bars, height: float, load: float) -> str:
    return f"{height:.2f} s, load {load:,.0f}" if bars.unit == "seconds" else f"{height:,.0f} {bars.unit}"


def _caption(bars: Bars, most: float, mean: float) -> str:
    if bars.unit == "seconds":
        return f"Seconds per task in order of launch: the longest {most:.1f} s, the mean {mean:.1f} s (dashed)"
    return f"{per_what(bars).capitalize()}: the most {most:,.0f}, the mean {mean:,.0f} (dashed)"


def _values(finding: Finding) -> str:
    if not finding.values:
        return ""
    rows = "".join(
        f'<tr><td>{_text(str(value["key"]))}</td><td class="n">{value["rows"]:,}</td>'
        f'<td class="n">{100 * value["share"]:.2f} %</td></tr>'
        for value in finding.values
    )
    head = '<tr><th>hot key</th><th class="n">rows</th><th class="n">share</th></tr>'
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _remedy(remedy: Remedy, other: bool) -> str:
    code = f"<pre>{_text(remedy.code)}</pre>" if remedy.code else ""
    return f"<p>{'Or: ' if other else ''}{_text(remedy.text)}</p>{code}"


def _other_row(finding: Finding) -> str:
    stage = "" if finding.stage is None else str(finding.stage)
    if finding.count > 1:
        stage = f"{finding.count:,} stages"
    lost = f"{finding.lost:.1f} s" if finding.lost else ""
    fixes = "".join(
        f'<br><span class="quiet">{_text(remedy.text)}</span>'
        + (f"<pre>{_text(remedy.code)}</pre>" if remedy.code else "")
        for remedy in finding.remedies
    )
    bars = _task_bars(finding.bars) if finding.bars is not None else ""
    return (
        f'<tr><td>{_text(kind_name(finding.kind))}</td><td>{stage}</td><td class="n">{lost}</td>'
        f'<td class="w">{_text(finding.text)}{fixes}{bars}</td></tr>'
    )


def _longest(diagnosis: Diagnosis) -> str:
    rows = "".join(
        f'<tr><td>{stage.stage}</td><td class="n">{stage.wall_s:.1f} s</td><td class="n">{stage.tasks:,}</td>'
        f'<td class="n">{stage.slowest_s:.1f} s</td><td class="n">{stage.mean_s:.1f} s</td>'
        f'<td class="w">{_text(stage.what)}{"<br>" if stage.what else ""}'
        f'<span class="quiet">{_text(stage.call_site)}</span></td></tr>'
        for stage in diagnosis.longest
    )
    head = (
        '<tr><th>stage</th><th class="n">wall</th><th class="n">tasks</th><th class="n">slowest</th>'
        '<th class="n">mean</th><th>what</th></tr>'
    )
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _text(text: str) -> str:
    return html.escape(one_line(text), quote=True)
