"""A diagnosis as lines of text. Each piece has the name of a style, which a terminal may turn into a colour."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from itertools import pairwise

from keyspread.diagnosis.diagnosis import Diagnosis
from keyspread.diagnosis.stages.finding import Bars, Finding
from keyspread.diagnosis.stages.remedies import show_bytes

Line = list[tuple[str, str]]
PLAIN, TITLE, GOOD, BAD, QUIET, CODE, HOT, COOL = "", "title", "good", "bad", "quiet", "code", "hot", "cool"
_MARKS = "▁▂▃▄▅▆▇█"
_KIND_NAMES = {
    "uneven-input": "uneven input",
    "few-tasks": "few tasks",
    "few-keys": "few keys",
}
_PARTS = (("even", "▒", COOL), ("skew", "█", HOT), ("stragglers", "▚", QUIET), ("waiting", "·", QUIET))


def as_text(diagnosis: Diagnosis, width: int = 100) -> str:
    """Return a diagnosis as plain text."""
    lines = ("".join(piece for piece, _ in line).rstrip() for line in text_lines(diagnosis, width))
    return "\n".join(lines)


def text_lines(diagnosis: Diagnosis, width: int = 100) -> Iterator[Line]:
    """Yield the lines of a diagnosis: title, verdict, every hot key, what else cost time, notes."""
    width = max(40, min(width, 100))
    yield [(_cut(one_line(diagnosis.title), width), TITLE)]
    yield from _wrapped(facts_line(diagnosis), width, "", QUIET)
    yield []
    yield from _wrapped(diagnosis.verdict, width, "", BAD if diagnosis.skew else GOOD)
    for number, finding in enumerate(diagnosis.skew, 1):
        yield []
        yield from _finding(number, finding, width)
    if imports(diagnosis):
        yield []
        yield from _wrapped(f"The lines need: {imports(diagnosis)}", width, "", QUIET)
    if diagnosis.others:
        yield []
        yield [(others_title(diagnosis), TITLE)]
        for finding in diagnosis.others:
            yield from _other(finding, width)
    if not diagnosis.skew and diagnosis.longest:
        yield []
        yield [("Longest stages", TITLE)]
        yield [("  stage     wall s   tasks  slowest s  mean s  what", QUIET)]
        for stage in diagnosis.longest:
            numbers = f"  {stage.stage:<6} {stage.wall_s:>9,.1f} {stage.tasks:>7,} {stage.slowest_s:>10,.1f}"
            numbers += f" {stage.mean_s:>7,.1f}  "
            room = max(width - len(numbers), 12)
            yield [(numbers, PLAIN), (_cut(one_line(stage.what or stage.call_site), room), PLAIN)]
    if diagnosis.notes:
        yield []
        for note in diagnosis.notes:
            yield from _wrapped(f"Note: {one_line(note)}.", width, "", QUIET)


def imports(diagnosis: Diagnosis) -> str:
    """Return what must be imported before the suggested lines run, '' if nothing."""
    lines = " ".join(remedy.code for finding in diagnosis.findings for remedy in finding.remedies)
    needed = (("keyspread.spark.", "import keyspread.spark"), ("F.", "from pyspark.sql import functions as F"))
    return "; ".join(line for used, line in needed if re.search(rf"(?<![\w.]){re.escape(used)}", lines))


def facts_line(diagnosis: Diagnosis) -> str:
    """Return what was read, in one line."""
    facts = diagnosis.facts
    parts = []
    if facts.get("spark"):
        parts.append(f"Spark {one_line(str(facts['spark']))}")
    if facts.get("seconds") is not None:
        parts.append(f"{facts['seconds']:,.1f} s")
    for name in ("stages", "tasks", "rows"):
        if facts.get(name) is not None:
            noun = name[:-1] if facts[name] == 1 else name
            parts.append(f"{facts[name]:,} {noun}")
    if facts.get("log"):
        parts.append(one_line(str(facts["log"])))
    return " · ".join(parts)


def _finding(number: int, finding: Finding, width: int) -> Iterator[Line]:
    head = f"{number}  {finding.operator} by {', '.join(finding.keys)}"
    lost = cost_text(finding)
    yield [(_cut(one_line(head), width - len(lost) - 2).ljust(width - len(lost)), TITLE), (lost, BAD)]
    if where_text(finding):
        yield from _wrapped(where_text(finding), width, "   ", QUIET)
    if finding.time:
        yield [("   ", PLAIN), *_time_bar(finding, width - 3)]
        yield [("   ", PLAIN), *_parts_legend(finding)]
    if finding.bars is not None and len(finding.bars.heights) > 1:
        yield [("   ", PLAIN), *_sparkline(finding.bars, width - 24), (f"  {per_what(finding.bars)}", QUIET)]
    for text in load_texts(finding):
        yield from _wrapped(text, width, "   ")
    if finding.adaptive:
        yield from _wrapped(f"Adaptive execution: {finding.adaptive}", width, "   ")
    for value in finding.values:
        yield [("     ", PLAIN), (_cut(one_line(str(value["key"])), 40).ljust(24), HOT), (value_text(value), PLAIN)]
    for place, remedy in enumerate(finding.remedies):
        yield from _wrapped(f"{'or: ' if place else ''}{remedy.text}", width, "   → " if not place else "     ")
        if remedy.code:
            yield [(f"       {one_line(remedy.code)}", CODE)]


def lost_text(finding: Finding) -> str:
    """Return the time lost: 'at most', because even loads are the best case; 'at least', if tasks did not finish."""
    if finding.wall <= 0:
        return ""
    return f"at {'least' if finding.unfinished else 'most'} {finding.lost:.1f} of {finding.wall:.1f} s lost"


def cost_text(finding: Finding) -> str:
    """Return the time lost; of data, which knows no time, how uneven it is."""
    return lost_text(finding) or f"busiest {finding.ratio:.1f} × its even share"


def where_text(finding: Finding) -> str:
    """Return the stage, the query and the line of the user's code."""
    if finding.stage is None:
        return one_line(finding.call_site)
    stages = f"stage {finding.stage}"
    if finding.count > 1:
        stages = f"{finding.count:,} stages, the worst is {finding.stage} ({finding.worst:.1f} s)"
    return " · ".join(one_line(part) for part in (stages, finding.query, finding.call_site) if part)


def load_texts(finding: Finding) -> Iterator[str]:
    """Yield the load of the busiest task against the mean: what explains the time first, then rows and bytes."""
    if finding.unfinished:
        yield f"{finding.text[:1].upper()}{finding.text[1:]}"
    if finding.mean and not finding.wall:
        yield f"Busiest partition: {finding.busiest:,.0f} rows, the even share is {finding.mean:,.0f}"
    elif finding.mean:
        yield (
            f"Busiest task: {finding.ratio:.1f} × the mean ({finding.load}: {_amount(finding.load, finding.busiest)} "
            f"against {_amount(finding.load, finding.mean)})"
        )
    both = []
    if finding.rows is not None and finding.load != "shuffle rows":
        both.append(f"{finding.rows[0]:,.0f} rows against {finding.rows[1]:,.0f}")
    if finding.bytes is not None and finding.load != "shuffle bytes":
        both.append(f"{show_bytes(finding.bytes[0])} against {show_bytes(finding.bytes[1])}")
    if both:
        yield f"Largest in the shuffle: {', '.join(both)}"


def value_text(value: dict[str, object]) -> str:
    """Return the rows and the share of a hot key."""
    return f"{value['rows']:>14,} rows  {100 * float(str(value['share'])):6.2f} %"


def _amount(load: str, amount: float) -> str:
    return show_bytes(amount) if "bytes" in load else f"{amount:,.0f}"


def _time_bar(finding: Finding, width: int) -> Line:
    """Return the wall time as one bar: even, skew, stragglers, waiting."""
    total = sum(finding.time.get(name, 0.0) for name, _, _ in _PARTS)
    if total <= 0:
        return []
    pieces, done, drawn = [], 0.0, 0
    for name, sign, style in _PARTS:
        done += finding.time.get(name, 0.0)
        end = round(width * done / total)
        pieces.append((sign * (end - drawn), style))
        drawn = end
    return pieces


def _parts_legend(finding: Finding) -> Line:
    pieces: Line = []
    for name, sign, style in _PARTS:
        seconds = finding.time.get(name, 0.0)
        if seconds >= 0.05 or name in ("even", "skew"):
            pieces += [(sign, style), (f" {name} {seconds:.1f} s  ", QUIET)]
    return pieces


def is_hot(bars: Bars) -> list[bool]:
    """Tell of every bar whether its load is much more than the mean."""
    mean = sum(bars.loads) / len(bars.loads)
    return [load > 1.5 * mean for load in bars.loads]


def _sparkline(bars: Bars, width: int) -> Line:
    """Return the seconds of the tasks as marks, the busiest in another style; of many tasks the slowest per mark."""
    tasks, most, hot = list(range(len(bars.heights))), max(bars.heights) or 1.0, is_hot(bars)
    if len(tasks) > width:
        borders = [len(tasks) * place // width for place in range(width + 1)]
        tasks = [max(range(*section), key=bars.heights.__getitem__) for section in pairwise(borders)]
    marks = [_MARKS[round((len(_MARKS) - 1) * bars.heights[task] / most)] for task in tasks]
    return [(mark, HOT if hot[task] else COOL) for mark, task in zip(marks, tasks, strict=True)]


def per_what(bars: Bars) -> str:
    """Return what a bar shows."""
    return "seconds per task" if bars.unit == "seconds" else f"{bars.unit} per partition"


def others_title(diagnosis: Diagnosis) -> str:
    """Return the title above the findings that are not skew."""
    if diagnosis.facts.get("source") == "data":
        return "Other keys" if diagnosis.skew else "Keys"
    return "What else cost time" if diagnosis.skew else "What cost time instead"


def kind_name(kind: str) -> str:
    """Return a kind of finding for people."""
    return _KIND_NAMES.get(kind, kind)


def _other(finding: Finding, width: int) -> Iterator[Line]:
    stage = "" if finding.stage is None else f"stage {finding.stage}"
    if finding.count > 1:
        stage = f"{finding.count:,} stages"
    lost = f"{finding.lost:.1f} s" if finding.lost else ""
    head: Line = [(f"  {kind_name(finding.kind):<13}", TITLE), (f" {stage:<10}", QUIET), (f" {lost:>8}  ", PLAIN)]
    lead = " " * sum(len(piece) for piece, _ in head)
    width = max(width, len(lead) + 22)
    (_, *first), *more = _wrapped(finding.text, width, lead)
    yield [*head, *first]
    yield from more
    for remedy in finding.remedies:
        yield from _wrapped(remedy.text, width - 2, lead, QUIET)
        if remedy.code:
            yield [(lead, PLAIN), (one_line(remedy.code), CODE)]


def _wrapped(text: str, width: int, lead: str, style: str = PLAIN) -> Iterator[Line]:
    rest = " " * len(lead)
    for place, line in enumerate(textwrap.wrap(one_line(text), width - len(lead)) or [""]):
        yield [(rest if place else lead, PLAIN), (line, style)]


def one_line(text: str) -> str:
    """Return text from a log on one line, without control characters: a terminal would obey them."""
    return "".join(character if character.isprintable() else " " for character in text).strip()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def separated(diagnoses: Sequence[Diagnosis], width: int = 100) -> Iterator[Line]:
    """Yield the lines of several diagnoses, with a rule between them."""
    for place, diagnosis in enumerate(diagnoses):
        if place:
            yield []
            yield [("─" * min(width, 100), QUIET)]
            yield []
        yield from text_lines(diagnosis, width)
