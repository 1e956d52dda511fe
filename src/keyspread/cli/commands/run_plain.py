"""`keyspread run --aggregate …` without a scheme: Spark's own `groupBy` is the right tool for it, and runs."""

from keyspread.cli.json_output import print_json
from keyspread.cli.options.run import RunOptions


def run_plain(options: RunOptions) -> None:
    """Check everything, run the job, write what was asked for, and print the result."""
    from keyspread.cli.commands.run_input import check_input, check_target
    from keyspread.cli.screens import layout
    from keyspread.cli.screens.plain_result import show
    from keyspread.cli.spark_session import failures_in_one_line, spark_session
    from keyspread.cli.standard_error import hold_stderr
    from keyspread.job import plain_job, sinks
    from keyspread.job.batch_job import result_schema
    from keyspread.spark.launch.master import check_master

    input, output, verbose = options.input, options.output, options.spark.verbose
    aggregates = output.aggregates()
    bounded = check_input(options)
    target = check_target(output, bounded.files)
    if options.spark.master is not None:
        check_master(options.spark.master)
    with hold_stderr(not verbose) as held, layout.steps(held.console, 2 + (target is not None)) as step:
        step("starting Spark")
        with (
            spark_session(options.spark.master, held, verbose, bounded.is_short, bounded.settings()) as session,
            failures_in_one_line(verbose),
        ):
            source = bounded.source(session)
            if target is not None:
                sinks.check_remote(session, target)
                sinks.check_columns(result_schema(source, aggregates), target)
            result = plain_job.run_plain(source, aggregates, top=output.top, strict=input.strict, progress=step)
            if target is not None:
                step("writing")
                sinks.write(result.merged, target)
            result.release()
    if result.malformed.count:
        layout.note(f"{input.input}: skipped {result.malformed}")
    out = None if target is None else target.path
    if output.as_json:
        print_json({"input": input.input, **result.to_dict(), "out": out})
    else:
        show(result, out)
