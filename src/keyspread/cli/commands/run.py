"""`keyspread run`: the main job on Spark, from an input to merged results; a screen for people, JSON for machines.

The options are in options/run.py; a run on a stream is in run_streaming.py.
"""

import os
from typing import TYPE_CHECKING, Any

from keyspread.cli.json_output import print_json
from keyspread.cli.options.groups import option_groups
from keyspread.cli.options.input import RunInput, given
from keyspread.cli.options.kafka import KafkaOptions
from keyspread.cli.options.run import RunOptions, RunOutput, RunRouting, RunSpark, StreamingOptions
from keyspread.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from keyspread.job.sinks import Target
    from keyspread.job.sources import Files, Source
    from keyspread.planned.plan import Plan
    from keyspread.streams import GeneratedStream

_SHORT = 5_000_000
"""Up to this many rows a run ends before the JVM's second compiler pays off; without it, the run uses 25 % less CPU."""


@option_groups
def run(
    input: RunInput,
    kafka: KafkaOptions,
    routing: RunRouting,
    streaming: StreamingOptions,
    output: RunOutput,
    spark: RunSpark,
) -> None:
    """Spread rows over workers on Spark, merge their partial results, and show how even the load was.

    [b]keyspread run[/b]
    [b]keyspread run --input clicks.csv --key user --aggregate 'total=sum(amount)' --out totals.parquet[/b]
    [b]keyspread run --live --input drift --checkpoint here[/b]
    """
    from keyspread.cli.commands.run_streaming import run_streaming
    from keyspread.cli.input_stream import refuse_unused

    options = RunOptions(input, kafka, routing, streaming, output, spark)
    parameters = input.parameters()
    parameters.pop("seed", None)  # it also seeds the senders, so every input uses it
    columns = given(format=input.format, key=input.key_columns[0] if input.key_columns else None)
    refuse_unused(input.input, parameters | columns, file_options=("format", "key"))
    if streaming.streaming or streaming.live:
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
            },
            "is for a run without --streaming",
        )
        run_streaming(options)
        return
    endless = {name: value for name, value in vars(streaming).items() if name not in ("streaming", "live")}
    _refuse(endless, "is for --streaming only")
    _run_bounded(options)


def _run_bounded(options: RunOptions) -> None:
    """Check everything, run the job, write what was asked for, and print the result."""
    from keyspread import checks
    from keyspread.cli.options.kafka import is_kafka, spark_settings
    from keyspread.cli.screens import layout
    from keyspread.cli.screens.job_result import show
    from keyspread.cli.spark_session import failures_in_one_line, spark_session
    from keyspread.cli.standard_error import hold_stderr
    from keyspread.job import sinks
    from keyspread.job.batch_job import check_options, result_schema, run_job
    from keyspread.job.sources import find_files
    from keyspread.schemes import PLANNED, Kind, resolve
    from keyspread.spark.launch.master import check_master
    from keyspread.streams import named_stream
    from keyspread.streams.generated.catalog import DEFAULTS

    input, routing, output = options.input, options.routing, options.output
    # Check everything that can be checked without Spark before it starts.
    aggregates = output.aggregates()
    options.kafka.check(input.input, input.format)
    scheme = routing.scheme or PLANNED
    generated = named_stream(input.input, **input.parameters()) if input.input.lower() in DEFAULTS else None
    files = find_files(input.input, input.format) if generated is None and not is_kafka(input.input) else None
    if generated is not None:
        checks.whole_number("messages", generated.messages)
    if routing.senders is not None:
        checks.whole_number("senders", routing.senders)
        if is_kafka(input.input):
            raise InputError(
                f"--senders is for files and generated streams only, got {routing.senders} with kafka: leave it out"
            )
    plan = _read_plan(routing.plan_in, "--plan-in")
    scheme_options = routing.options()
    scheme_options |= given(sample=routing.sample, previous=_read_plan(routing.previous, "--previous"))
    check_options(scheme, routing.workers, plan, scheme_options)
    target = _target(output, files)
    _check_plan_out(routing.plan_out, scheme, output.overwrite)
    if options.spark.master is not None:
        check_master(options.spark.master)

    verbose = options.spark.verbose
    short = generated is not None and generated.messages <= _SHORT
    settings = spark_settings(input.input, options.spark.jars)
    counts_keys = resolve(scheme).kind is Kind.PLANNED and plan is None
    steps = 2 + counts_keys + (not output.no_compare) + (target is not None)
    with hold_stderr(not verbose) as held, layout.steps(held.console, steps) as step:
        step("starting Spark")
        with (
            spark_session(options.spark.master, held, verbose, short, settings) as session,
            failures_in_one_line(verbose),
        ):
            source = _source(session, options, generated, files)
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


def _source(
    session: "SparkSession", options: RunOptions, generated: "GeneratedStream | None", files: "Files | None"
) -> "Source":
    """Return the rows to spread: of a generated stream, of files, or of a Kafka topic as it is now."""
    from keyspread.job.sources import file_source, made_source
    from keyspread.job.stream_sources import topic_source

    key, kafka = options.input.key_columns, options.kafka
    if generated is not None:
        return made_source(session, generated, options.routing.senders)
    if files is not None:
        return file_source(session, files, key, options.routing.senders)
    return topic_source(session, str(kafka.brokers), str(kafka.topic), key, schema=kafka.schema, streaming=False)


def _refuse(options: dict[str, Any], reason: str) -> None:
    """Raise an error for the first of these options that was given."""
    for name, value in options.items():
        if value is not None:
            raise InputError(f"--{name} {reason}{'' if value is True else f', got {value}'}: leave it out")


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


def _target(output: RunOutput, files: "Files | None") -> "Target | None":
    from keyspread.job.sinks import check_apart, find_target

    if output.out is None:
        if output.out_format is not None:
            raise InputError(f"--out-format {output.out_format} has no effect without --out")
        return None
    target = find_target(output.out, output.out_format, output.overwrite)
    if files is not None:
        check_apart(target, files.path)
    return target
