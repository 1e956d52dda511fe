"""`keyspread bench`: what a scheme gains on a running Spark, on this machine or on a cluster."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyspread.cli.options import completion
from keyspread.cli.options.bench_live import BenchLive
from keyspread.cli.options.command import Command, CommandGroup
from keyspread.cli.options.groups import option_groups
from keyspread.cli.options.output import Json, Verbose, spark
from keyspread.cli.options.parsers import COUNT, NAME, NUMBER
from keyspread.cli.options.routing import routing
from keyspread.errors import InputError

if TYPE_CHECKING:
    from keyspread.deployment.measurements import Deployment
    from keyspread.deployment.setup import Setup

_SKEWS = "1.4,1.7,2.0"
_SCHEMES = "key,partial-key,shuffle,d-choices,w-choices"

bench = typer.Typer(
    cls=CommandGroup,
    help="Measure what a scheme gains on a running Spark, on this machine or on a cluster.",
    rich_markup_mode="rich",
)


@bench.callback(invoke_without_command=True)
def _no_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def _input(help: str, default: str | bool = True, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel="Generated streams", show_default=default, **more)


def _load(help: str, panel: str = "Load", default: str | bool = True, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel=panel, show_default=default, **more)


@dataclass(frozen=True)
class BenchInput:
    """The streams: one Zipf stream for each exponent."""

    skews: Annotated[
        str | None,
        _input("Zipf exponents, separated by commas", f"{_SKEWS}; 2.0 with --realtime", metavar="NUMBERS"),
    ] = None
    keys: Annotated[int, _input("Number of keys", **COUNT)] = 10_000
    messages: Annotated[
        int | None,
        _input("Number of messages per throughput run; the paper uses 2e6", "derived from --seconds", **COUNT),
    ] = None
    seed: Annotated[int, _input("Random seed: the same seed gives the same streams", **COUNT)] = 0


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
    """The work per message, and how messages arrive."""

    work: Annotated[str, _load("Work per message: [b]sleep[/b] uses no core, [b]cpu[/b] keeps one busy", **NAME)] = (
        "sleep"
    )
    milliseconds: Annotated[
        float | None, _load("Milliseconds of work per message", default="1; 20 with --realtime", **NUMBER)
    ] = None
    seconds: Annotated[float, _load("Throughput: seconds of work of the busiest worker in a run", **NUMBER)] = 4.0
    repetitions: Annotated[int, _load("Throughput: number of runs per scheme", **COUNT)] = 3
    utilization: Annotated[
        float, _load("Latency: rate of arrival as a share of the best possible throughput", **NUMBER)
    ] = 0.2
    arrivals: Annotated[
        float | None,
        _load(
            "Latency: seconds during which messages arrive; 0 skips the measurement",
            default="2; with --realtime 6 per rate",
            **NUMBER,
        ),
    ] = None


@dataclass(frozen=True)
class BenchSpark:
    """Where Spark runs."""

    master: Annotated[
        str | None,
        spark("Spark to run on: spark://host:7077, yarn, …", default="local[WORKERS]", metavar="ADDRESS"),
    ] = None
    executors: Annotated[
        int | None, spark("Start a cluster of this many executors on this machine, and stop it afterwards", **COUNT)
    ] = None
    verbose: Verbose = False


@bench.command(cls=Command)
@option_groups
def deployment(
    stream: BenchInput,
    route: BenchRouting,
    load: BenchLoad,
    live: BenchLive,
    cluster: BenchSpark,
    as_json: Json = False,
) -> None:
    """Measure throughput and latency of every scheme on Spark, as in the paper's figures 13 and 14.

    Every result is checked against the exact counts. Everything that was started is stopped at the end.

    [b]keyspread bench deployment[/b]
    [b]keyspread bench deployment --executors 4 --skews 2.0[/b]
    [b]keyspread bench deployment --master spark://host:7077 --messages 2e6 --json > measured.json[/b]
    [b]keyspread bench deployment --realtime --brokers localhost:9092[/b]
    """
    from keyspread import checks
    from keyspread.deployment.setup import Setup

    if live.realtime:
        from keyspread.cli.commands.bench_realtime import deployment_realtime

        deployment_realtime(stream, route, load, live, cluster, as_json)
        return
    live.check_unused()
    setup = Setup(
        skews=numbers("--skews", _SKEWS if stream.skews is None else stream.skews),
        schemes=names(f"{_SCHEMES},planned" if route.schemes is None else route.schemes),
        workers=Setup.workers if route.workers is None else route.workers,
        sources=checks.whole_number("senders", Setup.sources if route.senders is None else route.senders),
        keys=stream.keys,
        milliseconds=Setup.milliseconds if load.milliseconds is None else load.milliseconds,
        work=load.work,
        messages=stream.messages,
        seconds=load.seconds,
        repetitions=load.repetitions,
        rate=load.utilization,
        arrivals=Setup.arrivals if load.arrivals is None else load.arrivals,
        seed=stream.seed,
    )
    if cluster.master is None:
        checks.whole_number("workers", setup.workers, maximum=checks.LIMITS["workers here"])
    check_cluster(cluster.master, cluster.executors)
    measured = measure(setup, cluster.master, cluster.executors, cluster.verbose)
    if as_json:
        print(json.dumps(measured.to_dict()))  # a format of its own, which `keyspread reproduce` reads
    else:
        from keyspread.cli.screens.bench import show

        show(measured)


def check_cluster(master: str | None, executors: int | None) -> None:
    """Raise an error for a cluster that cannot be used, before anything starts."""
    from keyspread import checks
    from keyspread.spark.launch.master import check_master

    if master is not None and executors is not None:
        raise InputError(f"--executors starts a new cluster, got --master {master} too: leave one of them out")
    if executors is not None:
        checks.whole_number("executors", executors)
    if master is not None:
        if master.startswith("sc://"):
            raise InputError(
                f"--master {master} is Spark Connect, which hides its cores: name the cluster's own master"
            )
        check_master(master)


def measure(setup: "Setup", master: str | None, executors: int | None, verbose: bool) -> "Deployment":
    """Start what is needed, measure, and stop everything, whatever happens."""
    from keyspread.cli.screens import layout
    from keyspread.cli.spark_session import failures_in_one_line, spark_session
    from keyspread.cli.standard_error import hold_stderr
    from keyspread.deployment.deploy import deploy, steps
    from keyspread.deployment.slots import SETTINGS

    with hold_stderr(not verbose) as held, layout.steps(held.console, steps(setup) + 1) as step:
        step("starting Spark")
        with (
            cluster_of(setup.workers, master, executors) as (address, settings),
            spark_session(address, held, verbose, settings=SETTINGS | settings) as session,
            failures_in_one_line(verbose),
        ):
            return deploy(session, setup, step)


@contextmanager
def cluster_of(slots: int, master: str | None, executors: int | None) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the address of a Spark with so many slots, and the settings that it needs."""
    if executors is None:
        yield master or f"local[{slots}]", {}
        return
    from keyspread.spark.launch.cluster import Cluster

    # This may be more cores than the machine has: they are slots for tasks that sleep.
    with Cluster(executors, cores=math.ceil(slots / executors)) as cluster:
        yield cluster.url, cluster.settings


def names(text: str) -> tuple[str, ...]:
    """Return the names in a list with commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def numbers(option: str, text: str) -> tuple[float, ...]:
    """Return the numbers in a list with commas."""
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise InputError(f"{option} must be numbers separated by commas, such as 1.4,2.0, got {text!r}") from None
