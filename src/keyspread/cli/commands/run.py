"""`keyspread run`: a job on Spark, from an input to a result; a screen for people, JSON for machines.

Without further options it runs the same work three ways and shows the seconds of each (run_timed.py). With a scheme it
shows what the scheme does to the rows (run_scheme.py), with aggregates it runs Spark's own `groupBy` (run_plain.py),
with --streaming a query on a stream (run_streaming.py). The options are in options/run.py.
"""

from typing import Any

from keyspread.cli.options.groups import option_groups
from keyspread.cli.options.input import RunInput, given
from keyspread.cli.options.kafka import KafkaOptions
from keyspread.cli.options.page import PageOptions
from keyspread.cli.options.run import (
    RunOptions,
    RunOutput,
    RunRouting,
    RunSpark,
    RunTiming,
    StreamingOptions,
)
from keyspread.errors import InputError


@option_groups
def run(
    input: RunInput,
    kafka: KafkaOptions,
    timing: RunTiming,
    routing: RunRouting,
    streaming: StreamingOptions,
    output: RunOutput,
    page: PageOptions,
    spark: RunSpark,
) -> None:
    """Run a job with work per row three ways on Spark: plain groupBy, salting by hand, keyspread. Show what it gains.

    With --scheme, show how the scheme spreads the rows over workers; with --aggregate, run Spark's own groupBy.

    [b]keyspread run[/b]
    [b]keyspread run --input clicks.csv --key user --work wait:5ms[/b]
    [b]keyspread run --input clicks.csv --key user --aggregate 'total=sum(amount)' --out totals.parquet[/b]
    [b]keyspread run --scheme d-choices --workers 50[/b]
    [b]keyspread run --live --input drift --checkpoint here[/b]
    """
    from keyspread.cli.input_stream import refuse_unused

    options = RunOptions(input, kafka, timing, routing, streaming, output, page, spark)
    parameters = input.parameters()
    parameters.pop("seed", None)  # it also seeds the senders, so every input uses it
    columns = given(format=input.format, key=input.key_columns[0] if input.key_columns else None)
    refuse_unused(input.input, parameters | columns, file_options=("format", "key"))
    if streaming.streaming or streaming.live:
        from keyspread.cli.commands.run_streaming import run_streaming

        _refuse(
            {
                "messages": input.messages,
                "sample": routing.sample,
                "plan-in": routing.plan_in,
                "previous": routing.previous,
                "plan-out": routing.plan_out,
                "strict": input.strict or None,
                "overwrite": output.overwrite or None,
                "no-compare": output.no_compare or None,
                **timing.given(),
            },
            "is for a run without --streaming",
        )
        run_streaming(options)
        return
    endless = {name: value for name, value in vars(streaming).items() if name not in ("streaming", "live")}
    _refuse(
        endless | {name.replace("_", "-"): value or None for name, value in vars(page).items()},
        "is for --streaming only",
    )
    _run_bounded(options)


def _run_bounded(options: RunOptions) -> None:
    """Run the job that the options ask for: by a scheme, by Spark alone, or three ways with the time of each."""
    from keyspread.cli.commands.run_plain import run_plain
    from keyspread.cli.commands.run_scheme import run_scheme
    from keyspread.cli.commands.run_timed import run_timed

    scheme, result = options.routing.of_schemes(), options.output.of_results()
    if options.output.no_compare:
        scheme["no-compare"] = True
    timing = options.timing.given()
    if timing:
        name = next(iter(timing))
        _refuse(scheme, f"shows what a scheme does to the rows, --{name} times three ways")
        _refuse(result, f"asks for a result, --{name} times three ways and keeps none")
    if scheme:
        run_scheme(options)
    elif result:
        run_plain(options)
    else:
        run_timed(options)


def _refuse(options: dict[str, Any], reason: str) -> None:
    """Raise an error for the first of these options that was given."""
    for name, value in options.items():
        if value is not None:
            raise InputError(f"--{name} {reason}{'' if value is True else f', got {value}'}: leave it out")
