"""Figures 13 and 14 live: `keyspread bench deployment --realtime` with a Kafka broker that is started for it.

Every scheme gets rising rates until its busiest worker saturates: the latency of single messages from Kafka to Kafka,
beside the queueing model. The command has the options; this one starts a broker, finds the jars, and stops both.

    ./dev bench realtime_deployment [SECONDS]
"""

import sys

import live  # noqa: F401  (the folder of the broker)
from kafka_broker import RegistryOutOfReachError, broker, connector_jars

from keyspread.cli import main as keyspread

from common import console, fail, numbers


def main() -> int:
    (seconds,) = numbers(seconds=6)
    try:
        name, jars = connector_jars()
        with broker() as running:
            console.print(name)
            options = ["--brokers", running.address, "--jars", ",".join(map(str, jars)), "--arrivals", str(seconds)]
            return keyspread(["bench", "deployment", "--realtime", *options])
    except RegistryOutOfReachError as problem:
        fail(str(problem))


if __name__ == "__main__":
    sys.exit(main())
