"""`keyspread bench deployment --realtime`: the latency of every scheme record by record, through a Kafka broker."""

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from keyspread.cli.commands.bench import check_cluster, cluster_of, names, numbers
from keyspread.errors import InputError

if TYPE_CHECKING:
    from keyspread.cli.commands.bench import BenchInput, BenchLoad, BenchRouting, BenchSpark
    from keyspread.cli.options.bench_live import BenchLive
    from keyspread.deployment.live.measurements import LiveDeployment

_NO_EFFECT = ("messages", "seconds", "repetitions", "utilization")
FORMAT = 1


def deployment_realtime(
    stream: "BenchInput",
    route: "BenchRouting",
    load: "BenchLoad",
    live: "BenchLive",
    cluster: "BenchSpark",
    as_json: bool,
) -> None:
    """Check all options before anything starts, measure, and print."""
    from keyspread import checks
    from keyspread.deployment.live.setup import LiveSetup, needed
    from keyspread.spark.kafka import check_brokers

    _check_options(stream, load)
    if live.brokers is None:
        raise InputError("--realtime needs a Kafka broker: pass --brokers HOST:PORT, such as --brokers localhost:9092")
    given: dict[str, Any] = {
        "skews": None if stream.skews is None else numbers("--skews", stream.skews),
        "schemes": None if route.schemes is None else names(route.schemes),
        "rates": None if live.rates is None else numbers("--rates", live.rates) or (0.0,),
        "milliseconds": load.milliseconds,
        "seconds": load.arrivals,
    }
    values = {name: value for name, value in given.items() if value is not None}
    values |= {"keys": stream.keys, "seed": stream.seed}
    for name, value in (("workers", route.workers), ("senders", route.senders)):
        if value is not None:
            checks.whole_number(name, value, maximum=checks.LIMITS["workers here"])
    # The same with a worker and a sender if none are given: how many fit is known once Spark runs.
    workers, senders = route.workers or 1, route.senders or 1
    LiveSetup(workers, senders, needed(workers, senders), **values)
    check_cluster(cluster.master, cluster.executors)
    check_brokers(live.brokers)
    measured = _measure(live.brokers, live.jars, route.workers, route.senders, values, cluster)
    if as_json:
        print(json.dumps({"format": FORMAT, **measured.to_dict()}))
    else:
        from keyspread.cli.screens.bench_realtime import show

        show(measured)


def _check_options(stream: "BenchInput", load: "BenchLoad") -> None:
    if load.work != "sleep":
        raise InputError(
            f"--realtime works by waiting, got --work {load.work}: workers, broker and producer share the cores here, "
            "so leave it out"
        )
    defaults = {field.name: field.default for group in (stream, load) for field in fields(group)}
    for name, value in {**vars(stream), **vars(load)}.items():
        if name in _NO_EFFECT and value != defaults[name]:
            raise InputError(f"--{name} has no effect with --realtime, got {value:g}: leave it out")


def _measure(
    brokers: str,
    jars: str | None,
    workers: int | None,
    senders: int | None,
    values: dict[str, Any],
    cluster: "BenchSpark",
) -> "LiveDeployment":
    """Start what is needed, measure, and stop everything, whatever happens."""
    from keyspread.cli.screens import layout
    from keyspread.cli.spark_session import failures_in_one_line, spark_session
    from keyspread.cli.standard_error import hold_stderr
    from keyspread.deployment.live.bench import check_engine, deploy_live, steps
    from keyspread.deployment.live.setup import LiveSetup, fitting, needed, slots_here
    from keyspread.deployment.slots import cores_of

    slots = max(slots_here(), needed(workers or 1, senders or 1))
    number_of = len(values.get("skews", LiveSetup.skews)) * len(values.get("schemes", LiveSetup.schemes))
    with (
        hold_stderr(not cluster.verbose) as held,
        layout.steps(held.console, 2 + number_of) as step,
    ):
        step("starting Spark")
        with (
            cluster_of(slots, cluster.master, cluster.executors) as (address, settings),
            spark_session(address, held, cluster.verbose, settings=_settings(jars) | settings) as session,
            failures_in_one_line(cluster.verbose),
        ):
            check_engine(session)
            found = cores_of(session)
            setup = LiveSetup(*fitting(found, workers, senders), found, **values)
            assert steps(setup) == 1 + number_of
            return deploy_live(session, brokers, setup, step)


def _settings(jars: str | None) -> dict[str, str]:
    from keyspread.spark.kafka import with_kafka
    from keyspread.spark.realtime.settings import realtime_settings

    needed = realtime_settings()
    started = {"spark.python.daemon.module": "keyspread.deployment.kernel_daemon"}
    return with_kafka(({} if jars is None else {"spark.jars": jars}) | started | needed.application | needed.session)
