"""A diagnosis as HTML: one page without scripts or other files, from the template `page.html.jinja`.

The template escapes every value: applications may call themselves `<script>`.
"""

from collections.abc import Sequence
from importlib.resources import files

import jinja2
from markupsafe import Markup

from keyspread.diagnosis.diagnosis import Diagnosis
from keyspread.diagnosis.stages.finding import Bars
from keyspread.diagnosis.text import (
    cost_text,
    facts_line,
    imports,
    is_hot,
    kind_name,
    load_texts,
    one_line,
    others_title,
    per_what,
    where_text,
)
from keyspread.drawing.markup import as_html
from keyspread.drawing.picture import Columns, Picture


def page(diagnoses: Sequence[Diagnosis]) -> str:
    """Return a whole page with every diagnosis."""
    return _template().render(diagnoses=diagnoses, fragment=False)


def fragment(diagnosis: Diagnosis) -> str:
    """Return a diagnosis for a notebook: the style applies to nothing else on its page."""
    return _template().render(diagnoses=[diagnosis], fragment=True)


def _template() -> jinja2.Template:
    source = files("keyspread.diagnosis").joinpath("page.html.jinja").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "cost": cost_text,
        "facts": facts_line,
        "imports": imports,
        "kind": kind_name,
        "line": one_line,
        "loads": load_texts,
        "others_title": others_title,
        "tasks": _task_bars,
        "where": where_text,
    }
    return environment.from_string(source)


def _task_bars(bars: Bars | None) -> Markup:
    """Return one column per task, as high as its time; tasks with much more than the mean load stand out."""
    if bars is None or len(bars.heights) < 2:
        return Markup()
    hot = [height if marked else 0.0 for height, marked in zip(bars.heights, is_hot(bars), strict=True)]
    most, mean = max(bars.heights), sum(bars.heights) / len(bars.heights)
    if bars.unit == "seconds":
        caption = f"Seconds per task in order of launch: the longest {most:.1f} s, the mean {mean:.1f} s"
    else:
        caption = f"{per_what(bars).capitalize()}: the most {most:,.0f}, the mean {mean:,.0f}"
    more = f"; {bars.left_out:,} more tasks are left out" if bars.left_out else ""
    unit = "tasks" if bars.unit == "seconds" else "partitions"
    columns = Columns(
        "",
        bars.heights,
        hot,
        unit=unit,
        line="mean time" if unit == "tasks" else "even share",
        mark="much more load than the mean",
    )
    return Markup(as_html(Picture("", "", [columns]))) + Markup('<p class="quiet">{}{}.</p>').format(caption, more)
