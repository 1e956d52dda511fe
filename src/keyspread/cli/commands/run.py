"""`keyspread run`: the main job on Spark, from a source to merged results; a screen for people, JSON for machines.

Its options are here; what it does on a stream is in run_streaming.py.
"""

import json
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyspread.cli.options import count, count_or_auto, number
from keyspread.errors import InputError

if TYPE_CHECKING:
    from keyspread.job.sinks import Target
    from keyspread.job.sources import Files
    from keyspread.planned.plan import Plan

_SHORT = 5_000_000
"""Rows up to which a run is over before the JVM's second compiler pays: without it, a quarter less of the cores."""


def _source(help: str, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel="Source", **more)


def _streaming(help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Streaming", **more)


def _scheme(help: str, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel="Scheme", **more)


def _result(help: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Result", **more)


_COUNT: dict[str, Any] = {"parser": count, "metavar": "COUNT"}
_NUMBER: dict[str, Any] = {"parser": number, "metavar": "NUMBER"}
_NAME = {"metavar": "NAME"}
_FILE = {"metavar": "FILE"}


def run(
    source: Annotated[
        str,
        _source(
            "[b]zipf[/b], drift, wp, tw, ct (see [b]keyspread datasets list[/b]); [b]kafka[/b]; or files: one, a "
            "folder or a pattern; CSV, JSON, Parquet, time<TAB>key.",
            metavar="NAME|PATH",
        ),
    ] = "zipf",
    format: Annotated[
        str | None, _source("csv, json, parquet or tsv (time<TAB>key).", show_default="by the file's ending", **_NAME)
    ] = None,
    key: Annotated[list[str] | None, _source("Column of the key; repeat it for several.", metavar="COLUMN")] = None,
    skew: Annotated[float | None, _source("Zipf exponent, 0 is uniform.", show_default="1.4", **_NUMBER)] = None,
    keys: Annotated[int | None, _source("Keys of the Zipf law.", show_default="10000", **_COUNT)] = None,
    messages: Annotated[int | None, _source("Rows to draw.", show_default="1e6", **_COUNT)] = None,
    scale: Annotated[float | None, _source("Share of the size of wp, tw or ct.", show_default="1", **_NUMBER)] = None,
    every: Annotated[int | None, _source("Rows between changes of drift.", show_default="50000", **_COUNT)] = None,
    brokers: Annotated[str | None, _source("Kafka's brokers.", metavar="HOST:PORT,…")] = None,
    topic: Annotated[str | None, _source("Topic of Kafka.", **_NAME)] = None,
    schema: Annotated[
        str | None, _source("Fields of a topic's JSON values, as 'user STRING, spent DOUBLE'.", metavar="SQL")
    ] = None,
    jars: Annotated[
        str | None, _source("Jars for Spark, such as Kafka's connector.", show_default="fetched", metavar="FILE,…")
    ] = None,
    partitions: Annotated[
        int | None,
        _source("Senders that share the rows.", show_default="8, or as Spark splits the files", **_COUNT),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse files with malformed lines.", rich_help_panel="Source")
    ] = False,
    streaming: Annotated[
        bool, _streaming("Run on a stream: zipf or drift without end, a folder that grows, a topic.", "--streaming")
    ] = False,
    live: Annotated[bool, _streaming("Draw workers, imbalance and hottest keys as it runs.", "--live")] = False,
    rate: Annotated[
        float | None,
        _streaming("Rows a second, of a topic at most.", show_default="10000 of zipf and drift", **_NUMBER),
    ] = None,
    trigger: Annotated[float | None, _streaming("Seconds from batch to batch.", show_default="1", **_NUMBER)] = None,
    checkpoint: Annotated[str | None, _streaming("Folder to keep, and to go on from.", metavar="PATH")] = None,
    batches: Annotated[int | None, _streaming("Stop after so many.", show_default="at Ctrl-C", **_COUNT)] = None,
    seconds: Annotated[float | None, _streaming("Stop after so long.", show_default="at Ctrl-C", **_NUMBER)] = None,
    workers: Annotated[int, _scheme("Workers to spread over.", **_COUNT)] = 16,
    scheme: Annotated[
        str | None,
        _scheme(
            "How a row finds its worker: planned, d-choices, w-choices, …",
            show_default="planned; look-ahead on a stream",
            **_NAME,
        ),
    ] = None,
    seed: Annotated[int, _scheme("Same seed, same result.", **_COUNT)] = 0,
    threshold: Annotated[
        float | None, _scheme("Share from which a key is hot.", show_default="1/(5·workers)", **_NUMBER)
    ] = None,
    tolerance: Annotated[
        float | None, _scheme("Imbalance that d-choices may leave.", show_default="1e-4", **_NUMBER)
    ] = None,
    capacity: Annotated[int | None, _scheme("Counters a sender keeps.", show_default="2/threshold", **_COUNT)] = None,
    choices: Annotated[int | None, _scheme("Fixed choices of a hot key (greedy).", **_COUNT)] = None,
    half_life: Annotated[
        str | None,
        _scheme(
            "Rows after which a count weighs half, or auto.",
            parser=count_or_auto,
            show_default="no fading",
            metavar="COUNT|auto",
        ),
    ] = None,
    sample: Annotated[float | None, _scheme("Plan from this share of the rows.", show_default="1", **_NUMBER)] = None,
    plan_in: Annotated[str | None, _scheme("Deal by this plan, count nothing.", **_FILE)] = None,
    previous: Annotated[str | None, _scheme("Plan anew, but stay close to this plan.", **_FILE)] = None,
    plan_out: Annotated[str | None, _scheme("Write the plan as JSON.", **_FILE)] = None,
    aggregate: Annotated[
        list[str] | None,
        _result(
            "What to compute for each key, as [b]total=sum(amount)[/b]; repeat it for several.",
            show_default="count",
            metavar="NAME=CALL",
        ),
    ] = None,
    top: Annotated[int, _result("Hottest keys to show.", **_COUNT)] = 10,
    out: Annotated[str | None, _result("Write the merged rows into this folder.", metavar="PATH")] = None,
    out_format: Annotated[
        str | None, _result("parquet or csv.", show_default="by the ending, else parquet", **_NAME)
    ] = None,
    overwrite: Annotated[bool, _result("Replace what --out and --plan-out name.", "--overwrite")] = False,
    as_json: Annotated[bool, _result("Print one JSON object, of a stream one a batch.", "--json")] = False,
    master: Annotated[
        str | None,
        typer.Option(
            help="Spark to run on: local[4], spark://host:7077, sc://host, yarn, …",
            show_default="local[*]",
            metavar="ADDRESS",
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show all that Spark says.")] = False,
) -> None:
    """Spread rows over workers on Spark, merge what they computed, and show how even the load was.

    [b]keyspread run[/b]
    [b]keyspread run --source clicks.csv --key user --aggregate 'total=sum(amount)' --out totals.parquet[/b]
    [b]keyspread run --live --source drift --checkpoint here[/b]
    """
    from keyspread import checks
    from keyspread.cli import engine, interruption
    from keyspread.cli.commands.run_streaming import Asked, run_streaming
    from keyspread.cli.kafka_options import check_kafka, is_kafka, spark_settings
    from keyspread.cli.screens import layout
    from keyspread.cli.screens.outcome import show
    from keyspread.cli.stream_argument import refuse_foreign
    from keyspread.job import sinks
    from keyspread.job.batch_job import check_options, result_schema, run_job
    from keyspread.job.sources import check_partitions, file_source, find_files, made_source
    from keyspread.job.stream_sources import topic_source
    from keyspread.schemes import PLANNED, Kind, resolve
    from keyspread.spark.launch.master import check_master
    from keyspread.streams import named_stream
    from keyspread.streams.generated.catalog import DEFAULTS

    # Whatever can be refused without Spark is refused before it starts.
    law = _given(skew=skew, keys=keys, messages=messages, scale=scale, every=every)
    refuse_foreign(source, law | _given(format=format, key=key[0] if key else None))
    options = _given(threshold=threshold, tolerance=tolerance, counters=capacity, choices=choices)
    options |= _given(half_life=half_life)
    aggregates = _aggregates(aggregate or ())
    if streaming or live:
        bounded = {"messages": messages, "sample": sample, "plan-in": plan_in, "previous": previous}
        bounded |= {"plan-out": plan_out, "strict": strict or None, "overwrite": overwrite or None}
        _refuse(bounded, "is for a run without --streaming")
        run_streaming(
            Asked(
                source=source,
                law=law,
                format=format,
                key=tuple(key or ()),
                brokers=brokers,
                topic=topic,
                schema=schema,
                partitions=partitions,
                workers=workers,
                scheme=scheme,
                seed=seed,
                options=options,
                aggregates=aggregates,
                out=out,
                out_format=out_format,
                top=top,
                rate=rate,
                trigger=trigger,
                batches=batches,
                seconds=seconds,
                checkpoint=checkpoint,
                live=live,
                as_json=as_json,
                master=master,
                jars=jars,
                verbose=verbose,
            )
        )
        return
    endless = {"rate": rate, "trigger": trigger, "checkpoint": checkpoint, "batches": batches, "seconds": seconds}
    _refuse(endless, "is for --streaming only")
    check_kafka(source, brokers=brokers, topic=topic, schema=schema, format=format)
    scheme = scheme or PLANNED
    made = named_stream(source, **law, seed=seed) if source.lower() in DEFAULTS else None
    files = find_files(source, format) if made is None and not is_kafka(source) else None
    if made is not None:
        checks.whole_number("messages", made.messages, maximum=2**62)
    check_partitions(partitions)
    if partitions is not None and is_kafka(source):
        raise InputError(f"--partitions is for files and made streams only, got {partitions} with kafka: leave it out")
    plan = _plan(plan_in, "--plan-in")
    options |= _given(sample=sample, previous=_plan(previous, "--previous"))
    check_options(scheme, workers, plan, options)
    target = _target(out, out_format, overwrite, files)
    _check_plan_out(plan_out, scheme, overwrite)
    if master is not None:
        check_master(master)

    counts = resolve(scheme).kind is Kind.PLANNED and plan is None
    short = made is not None and made.messages <= _SHORT
    with interruption.held(not verbose) as held, layout.steps(held.console, 3 + counts + (target is not None)) as step:
        step("starting Spark")
        settings = spark_settings(source, jars)
        with engine.spark(master, held, verbose, short, settings) as spark, engine.told(verbose):
            if made is not None:
                found = made_source(spark, made, partitions)
            elif files is not None:
                found = file_source(spark, files, key or (), partitions)
            else:
                found = topic_source(spark, str(brokers), str(topic), key or (), schema=schema, streaming=False)
            if target is not None:
                sinks.check_remote(spark, target)
                sinks.check_columns(result_schema(found, aggregates), target)
            result = run_job(
                found,
                workers,
                scheme,
                aggregates=aggregates,
                top=top,
                seed=seed,
                plan=plan,
                strict=strict,
                progress=step,
                **options,
            )
            if target is not None:
                step("writing")
                sinks.write(result.merged, target)
            if plan_out is not None and result.plan is not None:
                sinks.write_text(result.plan.to_json(), plan_out)
            result.release()
    if result.malformed.count:
        layout.note(f"{source}: left out {result.malformed}")
    written = {"out": None if target is None else target.path, "plan_out": plan_out}
    if as_json:
        print(json.dumps({**result.to_dict(), **written}, default=str, ensure_ascii=False))
    else:
        show(result, written)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _refuse(options: dict[str, Any], reason: str) -> None:
    for name, value in _given(**options).items():
        raise InputError(f"--{name} {reason}{'' if value is True else f', got {value}'}: leave it out")


def _plan(path: str | None, option: str) -> "Plan | None":
    from keyspread.planned.plan import Plan

    if path is None:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return Plan.from_json(file.read())
    except (OSError, UnicodeDecodeError) as problem:
        reason = getattr(problem, "strerror", None) or "not text"
        raise InputError(f"{option} {path}: cannot be read ({reason}): pass what --plan-out wrote") from None
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


def _aggregates(texts: Sequence[str]) -> dict[str, str]:
    """['total=sum(amount)', 'count(*)'] → {'total': 'sum(amount)', 'count(*)': 'count(*)'}, each known to merge."""
    from keyspread.spark.aggregation.sql_functions import parse

    found: dict[str, str] = {}
    for text in texts:
        named = re.match(r"\s*([^=()]+?)\s*=\s*(.+)\Z", text, re.DOTALL)
        name, call = (named[1], named[2]) if named else (text.strip(), text)
        if name in found:
            raise InputError(f"--aggregate {text!r}: there is one called {name!r} already, give it another name")
        parse(name, call)
        found[name] = call
    return found


def _target(out: str | None, format: str | None, overwrite: bool, files: "Files | None") -> "Target | None":
    from keyspread.job.sinks import check_apart, find_target

    if out is None:
        if format is not None:
            raise InputError(f"--out-format {format} has nothing to do without --out")
        return None
    target = find_target(out, format, overwrite)
    if files is not None:
        check_apart(target, files.path)
    return target
