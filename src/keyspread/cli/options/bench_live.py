"""The options of `bench deployment --realtime`: a Kafka broker, its connector and the rates."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from keyspread.errors import InputError


def _live(help: str, default: str | bool = True, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel="Real-time mode", show_default=default, **more)


@dataclass(frozen=True)
class BenchLive:
    """Record by record through a Kafka broker, instead of batches."""

    realtime: Annotated[
        bool,
        typer.Option(
            "--realtime",
            help="Measure latency record by record, from Kafka to Kafka, in Spark's real-time mode (Spark 4.3)",
            rich_help_panel="Real-time mode",
        ),
    ] = False
    brokers: Annotated[str | None, _live("Kafka brokers to connect to", metavar="HOST:PORT,…")] = None
    rates: Annotated[
        str | None,
        _live(
            "Rising messages per second, separated by commas",
            "10, 25, 50, 75, 100 % of the best possible throughput",
            metavar="NUMBERS",
        ),
    ] = None
    jars: Annotated[
        str | None, _live("Jars of Kafka's connector", "Spark downloads the connector", metavar="FILE,…")
    ] = None

    def check_unused(self) -> None:
        """Refuse options that have no effect without --realtime."""
        for name in ("brokers", "rates", "jars"):
            value = getattr(self, name)
            if value is not None:
                raise InputError(f"--{name} is for --realtime only, got {value!r}: leave it out, or add --realtime")
