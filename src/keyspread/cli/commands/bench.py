"""`keyspread bench`: what a scheme is worth on a running Spark, here or on your cluster."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keyspread.cli.options import count, number
from keyspread.errors import InputError

if TYPE_CHECKING:
    from keyspread.deployment.measurements import Deployment
    from keyspread.deployment.setup import Setup

_COUNT: dict[str, Any] = {"parser": count, "metavar": "COUNT"}
_NUMBER: dict[str, Any] = {"parser": number, "metavar": "NUMBER"}

bench = typer.Typer(help="What a scheme is worth on a running Spark, here or on your cluster.", rich_markup_mode="rich")


@bench.callback(invoke_without_command=True)
def _no_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


@bench.command()
def deployment(
    skews: Annotated[str, typer.Option(help="Zipf exponents, with commas.", metavar="NUMBERS")] = "1.4,1.7,2.0",
    schemes: Annotated[
        str, typer.Option(help="Schemes, with commas.", metavar="NAMES")
    ] = "key,partial-key,shuffle,d-choices,w-choices,planned",
    workers: Annotated[int, typer.Option(help="Workers, all running at once.", **_COUNT)] = 80,
    sources: Annotated[int, typer.Option(help="Senders that share the stream.", **_COUNT)] = 48,
    keys: Annotated[int, typer.Option(help="Keys of the Zipf law.", **_COUNT)] = 10_000,
    work: Annotated[
        str, typer.Option(help="[b]sleep[/b] needs no core, [b]cpu[/b] burns one.", metavar="NAME")
    ] = "sleep",
    milliseconds: Annotated[float, typer.Option(help="Work a message.", **_NUMBER)] = 1.0,
    messages: Annotated[
        int | None,
        typer.Option(
            help="Messages of every throughput run; the paper's are 2e6.", show_default="by --seconds", **_COUNT
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Work of the busiest worker in a throughput run.", **_NUMBER)] = 4.0,
    repetitions: Annotated[int, typer.Option(help="Rounds of throughput runs.", **_COUNT)] = 3,
    rate: Annotated[
        float, typer.Option(help="Latency: messages arrive at this part of the best possible rate.", **_NUMBER)
    ] = 0.2,
    arrivals: Annotated[
        float, typer.Option(help="Latency: seconds over which they arrive; 0 to leave it out.", **_NUMBER)
    ] = 2.0,
    seed: Annotated[int, typer.Option(help="Same seed, same streams.", **_COUNT)] = 0,
    executors: Annotated[
        int | None,
        typer.Option(help="Start a cluster of so many executors on this machine, and stop it.", **_COUNT),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(help="Spark to run on: spark://host:7077, …", show_default="local[WORKERS]", metavar="ADDRESS"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, every run in it.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show all that Spark says.")] = False,
) -> None:
    """Throughput and latency of every scheme on Spark, as in the paper's figures 13 and 14.

    Every result is compared with the exact one, and all that was started is stopped.

    [b]keyspread bench deployment[/b]
    [b]keyspread bench deployment --executors 4 --skews 2.0[/b]
    [b]keyspread bench deployment --master spark://host:7077 --messages 2e6 --json > measured.json[/b]
    """
    from keyspread.deployment.setup import Setup

    setup = Setup(
        skews=_numbers("--skews", skews),
        schemes=tuple(name.strip() for name in schemes.split(",") if name.strip()),
        workers=workers,
        sources=sources,
        keys=keys,
        milliseconds=milliseconds,
        work=work,
        messages=messages,
        seconds=seconds,
        repetitions=repetitions,
        rate=rate,
        arrivals=arrivals,
        seed=seed,
    )
    check_place(master, executors)
    measured = measure(setup, master, executors, verbose)
    if as_json:
        print(json.dumps(measured.to_dict()))
    else:
        from keyspread.cli.screens.bench import show

        show(measured)


def check_place(master: str | None, executors: int | None) -> None:
    """Refuse a place that cannot be, before anything is started."""
    from keyspread import checks
    from keyspread.spark.launch.master import check_master

    if master is not None and executors is not None:
        raise InputError(f"--executors starts a cluster of its own, got --master {master} too: leave one of them out")
    if executors is not None:
        checks.whole_number("executors", executors)
    if master is not None:
        if master.startswith("sc://"):
            raise InputError(
                f"--master {master} is Spark Connect, which hides its cores: name the cluster's own master"
            )
        check_master(master)


def measure(setup: "Setup", master: str | None, executors: int | None, verbose: bool) -> "Deployment":
    """Start what is needed, measure, and stop it, whatever happens."""
    from keyspread.cli import engine, interruption
    from keyspread.cli.screens import layout
    from keyspread.deployment.deploy import deploy, steps
    from keyspread.deployment.slots import SETTINGS

    with (
        interruption.held(not verbose) as held,
        layout.steps(held.console, steps(setup) + 1) as step,
    ):
        step("starting Spark")
        with (
            _place(setup, master, executors) as (address, settings),
            engine.spark(address, held, verbose, settings=SETTINGS | settings) as spark,
            engine.told(verbose),
        ):
            return deploy(spark, setup, step)


@contextmanager
def _place(setup: "Setup", master: str | None, executors: int | None) -> Iterator[tuple[str, dict[str, str]]]:
    """Give the address of a Spark with room for all workers, and the settings that it needs."""
    if executors is None:
        yield master or f"local[{setup.workers}]", {}
        return
    from keyspread.spark.launch.cluster import Cluster

    # More cores than the machine has: they are slots for tasks that sleep.
    with Cluster(executors, cores=math.ceil(setup.workers / executors)) as cluster:
        yield cluster.url, cluster.settings


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise InputError(f"{option} must be numbers with commas, such as 1.4,2.0, got {text!r}") from None
