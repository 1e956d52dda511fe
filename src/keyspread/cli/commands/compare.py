"""`keyspread compare`: every scheme on one stream, side by side, and which one to take."""

from dataclasses import dataclass
from typing import Any

from keyspread.cli.common.layout import print_json
from keyspread.cli.options import output as routing
from keyspread.cli.options.command import option_groups
from keyspread.cli.options.input import StreamInput, given
from keyspread.cli.options.output import Json


@dataclass(frozen=True)
class CompareRouting:
    """The workers and senders, and the options that all schemes get."""

    workers: routing.Workers = 50
    senders: routing.Senders = 5
    threshold: routing.Threshold = None
    half_life: routing.HalfLifeToCompare = None

    def options(self) -> dict[str, Any]:
        """Return the options of the schemes that were given."""
        return given(threshold=self.threshold, half_life=self.half_life)


@option_groups
def compare(
    stream: StreamInput,
    route: CompareRouting,
    windows: routing.Windows = 50,
    as_json: Json = False,
) -> None:
    """Simulate every scheme on a stream and say which one to take, or that none is needed.

    [b]keyspread compare --input clicks.csv --key user --workers 200[/b]
    """
    from keyspread import checks
    from keyspread.cli.common import layout
    from keyspread.cli.common.input_stream import note_malformed, read_input
    from keyspread.cli.screens.comparison import show
    from keyspread.evaluation.compare import ALL, RATE_INCLUDES, Sample, advise, frontier
    from keyspread.evaluation.compare import compare as compare_schemes

    checks.whole_number("senders", route.senders)
    messages = read_input(stream, routed=True)
    note_malformed(messages)
    with layout.late_progress("comparing", len(ALL)) as progress:
        compared = compare_schemes(
            messages.encoded,
            route.workers,
            sources=route.senders,
            seed=stream.seed or 0,
            windows=windows,
            progress=progress,
            **route.options(),
        )
    sample = Sample(route.workers, messages.encoded.messages, windows, messages.encoded.keys)
    advice = advise(compared, sample)
    if as_json:
        print_json(
            {
                **messages.facts(),
                **{"workers": route.workers, "sources": route.senders, "windows": windows},
                "schemes": [result.to_dict() for result in compared],
                "rate_includes": RATE_INCLUDES,
                "frontier": [result.scheme for result in frontier(compared)],
                "recommended": advice.scheme,
                "advice": advice.text,
            }
        )
    else:
        title = f"{messages.title}, {layout.many(route.workers, 'worker')}, {layout.many(route.senders, 'sender')}"
        show(title, compared, advice)
