"""`keyspread bench`: what a scheme gains on a running Spark, on this machine or on a cluster."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyspread.cli.options import input as completion
from keyspread.cli.options.command import COUNT, NUMBER, Command, CommandGroup, option_groups
from keyspread.cli.options.input import given
from keyspread.cli.options.output import Json, Verbose, routing, spark
from keyspread.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from keyspread.paper.deployment.measurements import Deployment
    from keyspread.paper.deployment.setup import Setup
    from keyspread.paper.live.setup import LiveDeployment

_SCHEMES = "key,partial-key,shuffle,d-choices,w-choices"
LIVE_FORMAT = 1

bench = typer.Typer(
    cls=CommandGroup,
    help="Measure what a scheme gains on a running Spark, on this machine or on a cluster.",
    rich_markup_mode="rich",
)


@bench.callback(invoke_without_command=True)
def _no_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def _load(help: str, default: str | bool = True, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel="Load", show_default=default, **more)


def _live(help: str, *names: str, default: str | bool = True, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel="Real-time mode", show_default=default, **more)


@dataclass(frozen=True)
class BenchRouting:
    """The schemes, and how many workers and senders run."""

    schemes: Annotated[
        str | None,
        routing(
            "Schemes, separated by commas",
            f"{_SCHEMES},planned; with --realtime per-key instead of planned",
            autocompletion=completion.scheme_list,
            metavar="NAMES",
        ),
    ] = None
    workers: Annotated[
        int | None, routing("Number of workers", "80; with --realtime as many as there are slots for", **COUNT)
    ] = None
    senders: Annotated[
        int | None,
        routing(
            "Number of senders (sources) that share the stream", "48; with --realtime a quarter of the slots", **COUNT
        ),
    ] = None


@dataclass(frozen=True)
class BenchLoad:
    """The streams, the work per message, and how messages arrive."""

    skews: Annotated[
        str | None,
        _load(
            "Zipf exponents, separated by commas: a stream for each",
            "1.4,1.7,2.0; 2.0 with --realtime",
            metavar="NUMBERS",
        ),
    ] = None
    milliseconds: Annotated[
        float | None, _load("Milliseconds of work per message, spent asleep", "1; 20 with --realtime", **NUMBER)
    ] = None
    seconds: Annotated[
        float | None, _load("Throughput: seconds of work of the busiest worker in a run", "4", **NUMBER)
    ] = None
    repetitions: Annotated[int | None, _load("Throughput: number of runs per scheme", "3", **COUNT)] = None
    arrivals: Annotated[
        float | None,
        _load(
            "Latency: seconds during which messages arrive; 0 skips the measurement",
            "2; with --realtime 6 per rate",
            **NUMBER,
        ),
    ] = None


@dataclass(frozen=True)
class BenchLive:
    """Record by record through a Kafka broker, instead of batches."""

    realtime: Annotated[
        bool,
        _live("Measure latency record by record, from Kafka to Kafka, in Spark's real-time mode (4.3)", "--realtime"),
    ] = False
    brokers: Annotated[str | None, _live("Kafka brokers to connect to", metavar="HOST:PORT,…")] = None
    rates: Annotated[
        str | None,
        _live(
            "Rising messages per second, separated by commas",
            default="10, 25, 50, 75, 100 % of the best possible throughput",
            metavar="NUMBERS",
        ),
    ] = None
    jars: Annotated[
        str | None, _live("Jars of Kafka's connector", default="Spark downloads the connector", metavar="FILE,…")
    ] = None


BenchMaster = Annotated[
    str | None, spark("Spark to run on: spark://host:7077, yarn, …", default="local[WORKERS]", metavar="ADDRESS")
]


@bench.command(cls=Command)
@option_groups
def deployment(
    route: BenchRouting,
    load: BenchLoad,
    live: BenchLive,
    master: BenchMaster = None,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Measure throughput and latency of every scheme on Spark, as in the paper's figures 13 and 14.

    Every result is checked against the exact counts. Everything that was started is stopped at the end.

    [b]keyspread bench deployment[/b]
    [b]keyspread bench deployment --master spark://host:7077 --json > reproduced/deployment.json[/b]
    [b]keyspread bench deployment --realtime --brokers localhost:9092[/b]
    """
    from keyspread.cli.screens import paper as screen

    # A format of its own, which `keyspread reproduce` reads.
    if live.realtime:
        measured_live = _measure_live(route, load, live, master, verbose)
        if as_json:
            print(json.dumps({"format": LIVE_FORMAT, **measured_live.to_dict()}))
        else:
            screen.show_live(measured_live)
        return
    _refuse(live, ("brokers", "rates", "jars"), "is for --realtime only", "or add --realtime")
    measured = measure(_setup(route, load, master), master, verbose)
    if as_json:
        print(json.dumps(measured.to_dict()))
    else:
        screen.show_deployment(measured)


def _setup(route: BenchRouting, load: BenchLoad, master: str | None) -> "Setup":
    """Check the options of batches."""
    from keyspread import checks
    from keyspread.paper.deployment.setup import Setup

    _check_count("senders", route.senders)
    setup = Setup(
        **given(sources=route.senders, workers=route.workers, repetitions=load.repetitions, seconds=load.seconds),
        **given(arrivals=load.arrivals),
        **_streams(route, load),
    )
    if master is None:
        checks.whole_number("workers", setup.workers, maximum=checks.LIMITS["workers here"])
    return setup


def _streams(route: BenchRouting, load: BenchLoad) -> dict[str, Any]:
    """Return the options that both kinds of deployment have in common."""
    return given(
        skews=None if load.skews is None else _numbers("--skews", load.skews),
        schemes=None
        if route.schemes is None
        else tuple(name.strip() for name in route.schemes.split(",") if name.strip()),
        milliseconds=load.milliseconds,
    )


def measure(setup: "Setup", master: str | None, verbose: bool) -> "Deployment":
    """Start Spark, measure, and stop it, whatever happens."""
    from keyspread.paper.deployment.measure import SETTINGS, deploy, steps

    check_classic(master)
    with _spark(master or f"local[{setup.workers}]", steps(setup), SETTINGS, verbose) as (session, step):
        return deploy(session, setup, step)


def _measure_live(
    route: BenchRouting, load: BenchLoad, live: BenchLive, master: str | None, verbose: bool
) -> "LiveDeployment":
    """Check the options of real-time mode, start Spark, measure, and stop it, whatever happens."""
    from keyspread.paper.deployment.measure import cores_of
    from keyspread.paper.live.measure import check_engine, deploy_live, steps
    from keyspread.paper.live.setup import LiveSetup, fitting, needed, slots_here
    from keyspread.spark.kafka import check_brokers, with_kafka
    from keyspread.spark.realtime.settings import realtime_settings

    _refuse(load, ("seconds", "repetitions"), "has no effect with --realtime")
    if live.brokers is None:
        raise InputError("--realtime needs a Kafka broker: pass --brokers HOST:PORT, such as --brokers localhost:9092")
    values = _streams(route, load) | given(seconds=load.arrivals)
    if live.rates is not None:
        values["rates"] = _numbers("--rates", live.rates) or (0.0,)
    _check_count("workers", route.workers)
    _check_count("senders", route.senders)
    # With a worker and a sender if none are given: how many fit is known once Spark runs.
    workers, senders = route.workers or 1, route.senders or 1
    checked = LiveSetup(workers, senders, needed(workers, senders), **values)
    check_classic(master)
    check_brokers(live.brokers)
    settings = realtime_settings()
    started = {"spark.python.daemon.module": "keyspread.paper.deployment.kernel_daemon"} | given(
        **{"spark.jars": live.jars}
    )
    slots = max(slots_here(), needed(workers, senders))
    with _spark(
        master or f"local[{slots}]",
        steps(checked),
        with_kafka(started | settings.application | settings.session),
        verbose,
    ) as (session, step):
        check_engine(session)
        cores = cores_of(session)
        setup = LiveSetup(*fitting(cores, route.workers, route.senders), cores, **values)
        return deploy_live(session, live.brokers, setup, step)


@contextmanager
def _spark(
    master: str, steps: int, settings: dict[str, str], verbose: bool
) -> "Iterator[tuple[SparkSession, Callable[[str], None]]]":
    """Yield a Spark and a function that shows the next step; Spark's start is a step of its own."""
    from keyspread.cli.common import layout
    from keyspread.cli.common.session import failures_in_one_line, hold_stderr, spark_session

    with hold_stderr(not verbose) as held, layout.steps(held.console, steps + 1) as step:
        step("starting Spark")
        with spark_session(master, held, verbose, settings=settings) as session, failures_in_one_line(verbose):
            yield session, step


def check_classic(master: str | None) -> None:
    """Refuse a master that cannot be used, before anything starts."""
    from keyspread.spark._launch.master import check_master

    if master is None:
        return
    if master.startswith("sc://"):
        raise InputError(f"--master {master} is Spark Connect, which hides its cores: name the cluster's own master")
    check_master(master)


def _refuse(options: BenchLoad | BenchLive, names: tuple[str, ...], why: str, otherwise: str = "") -> None:
    """Refuse options that do not apply."""
    for name in names:
        value = getattr(options, name)
        if value is not None:
            shown = repr(value) if isinstance(value, str) else f"{value:g}"
            remedy = f"leave it out, {otherwise}" if otherwise else "leave it out"
            raise InputError(f"--{name} {why}, got {shown}: {remedy}")


def _check_count(name: str, value: int | None) -> None:
    from keyspread import checks

    if value is not None:
        checks.whole_number(name, value, maximum=checks.LIMITS["workers here"])


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise InputError(f"{option} must be numbers separated by commas, such as 1.4,2.0, got {text!r}") from None
