"""`keyspread run --scheme …`: spread the rows by a scheme, merge partial results, compare with other schemes."""

import os
from typing import TYPE_CHECKING

from keyspread.cli.json_output import print_json
from keyspread.cli.options.input import given
from keyspread.cli.options.run import RunOptions
from keyspread.errors import InputError

if TYPE_CHECKING:
    from keyspread.planned.plan import Plan


def run_scheme(options: RunOptions) -> None:
    """Check everything, run the job, write what was asked for, and print the result."""
    from keyspread.cli.commands.run_input import check_input, check_target
    from keyspread.cli.screens import layout
    from keyspread.cli.screens.job_result import show
    from keyspread.cli.spark_session import failures_in_one_line, spark_session
    from keyspread.cli.standard_error import hold_stderr
    from keyspread.job import sinks
    from keyspread.job.batch_job import check_options, result_schema, run_job
    from keyspread.schemes import PLANNED, Kind, resolve
    from keyspread.spark.launch.master import check_master

    input, routing, output = options.input, options.routing, options.output
    # Check everything that can be checked without Spark before it starts.
    aggregates = output.aggregates()
    bounded = check_input(options)
    scheme = routing.scheme or PLANNED
    plan = _read_plan(routing.plan_in, "--plan-in")
    scheme_options = routing.options()
    scheme_options |= given(sample=routing.sample, previous=_read_plan(routing.previous, "--previous"))
    check_options(scheme, routing.workers, plan, scheme_options)
    target = check_target(output, bounded.files)
    _check_plan_out(routing.plan_out, scheme, output.overwrite)
    if options.spark.master is not None:
        check_master(options.spark.master)

    verbose = options.spark.verbose
    counts_keys = resolve(scheme).kind is Kind.PLANNED and plan is None
    steps = 2 + counts_keys + (not output.no_compare) + (target is not None)
    with hold_stderr(not verbose) as held, layout.steps(held.console, steps) as step:
        step("starting Spark")
        with (
            spark_session(options.spark.master, held, verbose, bounded.is_short, bounded.settings()) as session,
            failures_in_one_line(verbose),
        ):
            source = bounded.source(session)
            if target is not None:
                sinks.check_remote(session, target)
                sinks.check_columns(result_schema(source, aggregates), target)
            result = run_job(
                source,
                routing.workers,
                scheme,
                aggregates=aggregates,
                top=output.top,
                seed=input.seed or 0,
                plan=plan,
                strict=input.strict,
                compare=not output.no_compare,
                progress=step,
                **scheme_options,
            )
            if target is not None:
                step("writing")
                sinks.write(result.merged, target)
            if routing.plan_out is not None and result.plan is not None:
                sinks.write_text(result.plan.to_json(), routing.plan_out)
            result.release()
    if result.malformed.count:
        layout.note(f"{input.input}: skipped {result.malformed}")
    written = {"out": None if target is None else target.path, "plan_out": routing.plan_out}
    if output.as_json:
        print_json({"input": input.input, **result.to_dict(), **written})
    else:
        show(result, written)


def _read_plan(path: str | None, option: str) -> "Plan | None":
    from keyspread.planned.plan import Plan

    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return Plan.from_json(file.read())
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "not text"
        raise InputError(f"{option} {path}: cannot be read ({reason}): pass a file that --plan-out wrote") from None
    except InputError as problem:
        raise InputError(f"{option} {path}: {problem}") from None


def _check_plan_out(path: str | None, scheme: str, overwrite: bool) -> None:
    from keyspread.job.sinks import check_new
    from keyspread.schemes import Kind, resolve

    if path is None:
        return
    if resolve(scheme).kind is not Kind.PLANNED:
        raise InputError(f"--plan-out is for --scheme planned only, got {scheme}")
    if os.path.isdir(path):
        raise InputError(f"--plan-out must be a file, {path} is a folder")
    check_new(path, overwrite)
