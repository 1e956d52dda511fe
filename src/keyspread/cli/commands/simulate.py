"""`keyspread simulate`: one scheme on one stream, without Spark; a screen for people or JSON for machines."""

from dataclasses import dataclass
from typing import Any

from keyspread.cli.common.layout import print_json
from keyspread.cli.options import output as routing
from keyspread.cli.options.command import option_groups
from keyspread.cli.options.input import StreamInput, given
from keyspread.cli.options.output import Json


@dataclass(frozen=True)
class SimulateRouting:
    """The scheme, its workers and senders, and its options."""

    scheme: routing.Scheme = "per-key"
    workers: routing.Workers = 50
    senders: routing.Senders = 5
    threshold: routing.Threshold = None
    tolerance: routing.Tolerance = None
    counters: routing.Counters = None
    choices: routing.Choices = None
    half_life: routing.HalfLife = None

    def options(self) -> dict[str, Any]:
        """Return the options of the scheme that were given."""
        learning = given(threshold=self.threshold, counters=self.counters, half_life=self.half_life)
        return learning | given(tolerance=self.tolerance, choices=self.choices)


@option_groups
def simulate(stream: StreamInput, route: SimulateRouting, windows: routing.Windows = 50, as_json: Json = False) -> None:
    """Simulate one scheme on a generated stream or a file, and show how even the load is.

    [b]keyspread simulate --skew 1.4 --workers 50 --scheme d-choices[/b]
    [b]keyspread simulate --input clicks.csv --key user --workers 200[/b]
    """
    import keyspread
    from keyspread import checks
    from keyspread.cli.common import layout
    from keyspread.cli.common.input_stream import note_malformed, read_input
    from keyspread.cli.screens.simulation import show

    checks.whole_number("senders", route.senders)
    messages = read_input(stream, routed=True)
    note_malformed(messages)
    options = route.options()
    with layout.late_progress("simulating", messages.encoded.messages) as progress:
        result = keyspread.simulate(
            messages.encoded,
            route.scheme,
            route.workers,
            sources=route.senders,
            seed=stream.seed or 0,
            windows=windows,
            progress=progress,
            **options,
        )
    if as_json:
        print_json({**messages.facts(), "windows": windows, **options, **result.to_dict()})
    else:
        show(messages.title, result)
