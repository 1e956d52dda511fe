"""`keyspread run`: the same work per row three ways, plain groupBy, salting by hand and keyspread; seconds of each."""

from keyspread.cli.json_output import print_json
from keyspread.cli.options.run import RunOptions

_MESSAGES = 24_000
"""Of a generated stream: with 1 ms per row and 16 workers, three ways in two rounds take about half a minute."""
_MOST_SLOTS = 64
"""Every slot is a Python process on this machine."""


def run_timed(options: RunOptions) -> None:
    """Check everything, run the three ways, and print what they took."""
    from keyspread import checks
    from keyspread.cli.commands.run_input import check_input, check_target
    from keyspread.cli.options.plot_file import check_svg
    from keyspread.cli.screens import layout
    from keyspread.cli.screens.gain import show
    from keyspread.cli.spark_session import failures_in_one_line, spark_session
    from keyspread.cli.standard_error import hold_stderr
    from keyspread.drawing.markup import as_svg
    from keyspread.job.gain import ROUNDS, measure_gain
    from keyspread.job.sinks import write_text
    from keyspread.job.three_ways import WAYS
    from keyspread.job.work import Work
    from keyspread.spark.launch.master import check_master

    input, timing, output, verbose = options.input, options.timing, options.output, options.spark.verbose
    work = Work.of(timing.work or timing.default_work)
    rounds = ROUNDS if timing.rounds is None else checks.whole_number("rounds", timing.rounds)
    if timing.rows is not None:
        checks.whole_number("rows", timing.rows)
    bounded = check_input(options, messages=_MESSAGES)
    check_target(output, bounded.files)
    if timing.plot is not None:
        check_svg(timing.plot)
    workers = options.routing.workers
    master = options.spark.master
    if master is None:
        master = f"local[{min(workers, _MOST_SLOTS)}]"
    else:
        check_master(master)
    with hold_stderr(not verbose) as held, layout.steps(held.console, 3 + rounds * len(WAYS)) as step:
        step("starting Spark")
        with (
            spark_session(master, held, verbose, short=True, settings=bounded.settings()) as session,
            failures_in_one_line(verbose),
        ):
            found = measure_gain(
                bounded.source(session),
                workers,
                work,
                rows=timing.rows,
                rounds=rounds,
                top=output.top,
                seed=input.seed or 0,
                strict=input.strict,
                progress=step,
            )
    if found.malformed.count:
        layout.note(f"{input.input}: skipped {found.malformed}")
    if timing.plot is not None:
        write_text(as_svg(found.picture()), timing.plot)
    if output.as_json:
        print_json({"input": input.input, **found.to_dict(), "out": None})
    else:
        show(found)
