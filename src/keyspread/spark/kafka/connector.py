"""Spark's Kafka connector: its Maven coordinate, and the settings of a session that loads it."""

import difflib
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from keyspread import checks
from keyspread.errors import InputError
from keyspread.spark._engine.failures import why


def connector(version: str | None = None) -> str:
    """Return the Maven coordinate of the Kafka connector for the installed Spark, or for another version.

    >>> connector("4.2.0"), connector("3.5.6")
    ('org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0', 'org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.6')
    """
    found = version or pyspark.__version__
    # The PySpark of the package index is built for Scala 2.12 up to 3.5, and for 2.13 from 4.0 on.
    module = f"spark-sql-kafka-0-10_{'2.12' if found.startswith('3.') else '2.13'}"
    # The index's 4.1.0.dev1 is Maven's 4.1.0-preview1.
    return f"org.apache.spark:{module}:{re.sub(r'[.]dev(?=[0-9]+$)', '-preview', found)}"


def with_kafka(config: Mapping[str, Any] | None = None, version: str | None = None) -> dict[str, Any]:
    """Return the settings of a session with the connector added, for `session(**with_kafka({...}))`.

    The connector must be loaded when Spark starts. Spark downloads it once from Maven Central and caches it. Settings
    that name a Kafka connector already, in `spark.jars` or `spark.jars.packages`, are returned unchanged, as are those
    of a Spark Connect server (`sc://`), which has its own.

    Args:
        config: Settings of the session.
        version: The version of Spark, by default the installed one.

    Returns:
        The settings with the connector.

    >>> with_kafka({"master": "local[2]"}, version="4.2.0")["spark.jars.packages"]
    'org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0'
    """
    settings = dict(config or {})
    packages = str(settings.get("spark.jars.packages") or "")
    remote = str(settings.get("remote") or settings.get("spark.remote") or "")
    if "spark-sql-kafka" in f"{packages},{settings.get('spark.jars') or ''}" or remote.startswith("sc://"):
        return settings
    return settings | {"spark.jars.packages": ",".join(filter(None, [packages, connector(version)]))}


def no_connector() -> InputError:
    """Return the error for a session without the connector."""
    return InputError(
        "this Spark was started without its Kafka connector: start it with session(**with_kafka({...})), or with "
        f"spark.jars.packages={connector()}"
    )


# Kafka's own client in Spark's JVM. Classic Spark only: Spark Connect has no JVM on this side.
#
# Apart from the files that start Spark and the clients of the live benchmark (`paper/live/topics.py`), this
# is the only one that calls the JVM. Only error messages depend on it.


class NoClientError(Exception):
    """Spark was started without the connector, so it lacks Kafka's classes."""


def admin_client(spark: SparkSession, settings: Mapping[str, str]) -> Any:
    """Make a client with these settings, which the caller closes. Bad settings raise a Py4JError."""
    java = _jvm(spark).java.util.Properties()
    for name, value in settings.items():
        java.setProperty(name, value)
    try:
        return _jvm(spark).org.apache.kafka.clients.admin.AdminClient.create(java)
    except TypeError:  # py4j raises it for a class that does not exist
        raise NoClientError from None


def topic_names(spark: SparkSession, client: Any) -> set[str]:
    """Return the names of all topics, including internal ones; raise a Py4JError if no answer comes in time."""
    wanted = _jvm(spark).org.apache.kafka.clients.admin.ListTopicsOptions().listInternal(True)
    return set(client.listTopics(wanted).names().get())


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


# Checks before a Kafka query starts: do the brokers answer, does the topic exist, are names and options valid?


_PATIENCE = 10.0
"""Seconds for a broker to answer."""
_SHOWN = 5
_SECRET = re.compile(r"password|passphrase|secret|token|credential|jaas|keystore\.key|user\.info", re.IGNORECASE)
_QUOTED_SECRET = re.compile(r"""(?:password|secret|token)\w*\s*=\s*["']([^"']+)["']""", re.IGNORECASE)
_OURS = {
    "kafka.bootstrap.servers": "brokers",
    **dict.fromkeys(("subscribe", "subscribepattern", "assign", "topic"), "topic"),
    "startingoffsets": "starting",
    "maxoffsetspertrigger": "max_rows",
    "fetchoffset.numretries": "patience",
    "checkpointlocation": "checkpoint",
}


def check_brokers(brokers: str, timeout: float = _PATIENCE) -> None:
    """Raise an InputError if no broker accepts a connection within `timeout` seconds; needs neither Spark nor Java."""
    silent = []
    for place, host, port in _addresses(brokers):
        try:
            socket.create_connection((host, port), timeout=timeout).close()
            return  # one is enough: Kafka's clients learn of the others from the first that answers
        except OSError as problem:
            silent.append((place, problem.strerror or str(problem)))
    if len(silent) == 1:
        raise _no_answer(*silent[0])
    raise _no_answer(brokers, ", ".join(f"{place}: {reason}" for place, reason in silent))


def check_topic(
    spark: SparkSession,
    brokers: str,
    topic: str | Sequence[str],
    *,
    options: Mapping[str, Any] | None = None,
    timeout: float = _PATIENCE,
) -> None:
    """Raise an InputError if the brokers do not have the topic; the message names some topics that they have.

    Uses Kafka's own client in Spark's JVM, with the same `kafka.` options as the query. Does nothing over Spark
    Connect, which has no JVM on this side.
    """
    topics = checked_topics(topic)
    if is_remote():
        return
    milliseconds = str(int(checks.number("timeout", timeout) * 1000))
    settings = {"default.api.timeout.ms": milliseconds, "request.timeout.ms": milliseconds}
    given = {name[6:]: value for name, value in checked_options(options).items() if name.lower().startswith("kafka.")}
    try:
        client = admin_client(spark, given | settings | {"bootstrap.servers": brokers})
    except NoClientError:
        raise no_connector() from None
    except Py4JError as problem:
        reason = without_secrets(_reason(problem), options)
        raise InputError(
            f"{brokers}: Kafka's client refuses the options ({reason}): check those that start with kafka."
        ) from None
    try:
        known = topic_names(spark, client)
    except Py4JError as problem:
        raise _no_answer(brokers, without_secrets(_reason(problem), options)) from None
    finally:
        client.close()
    for name in topics:
        if name not in known:
            raise InputError(
                f"there is no topic {name!r} at {brokers}; {_some(known, name)}: check the name, or create it"
            )


def checked_topics(topic: str | Sequence[str], most: int | None = None) -> list[str]:
    """Return the names of topics as a list; refuse invalid names, without asking the brokers."""
    topics = topic.split(",") if isinstance(topic, str) else list(topic) if isinstance(topic, Sequence) else []
    topics = [name.strip() if isinstance(name, str) else "" for name in topics]
    # Kafka's rule for names
    if not topics or not all(re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) for name in topics):
        raise InputError(f"topic must be the name of a Kafka topic (letters, digits, '.', '_', '-'), got {topic!r}")
    if most is not None and len(topics) > most:
        raise InputError(f"topic must be one topic, got {topic!r}")
    return topics


def checked_options(options: Mapping[str, Any] | None) -> dict[str, str]:
    """Return options as Spark takes them; refuse those that have a parameter of their own."""
    for name in options or {}:
        if name.lower() in _OURS:
            raise InputError(f"option {name!r} is set by the parameter {_OURS[name.lower()]}: leave it out")
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in (options or {}).items()
    }


def without_secrets(text: str, options: Mapping[str, Any] | None) -> str:
    """Return a message in which no secret of these options is left.

    >>> without_secrets("bad: user=me password=swordfish", {"kafka.sasl.jaas.config": 'x password="swordfish";'})
    'bad: user=me password=***'
    """
    values = [str(value) for name, value in (options or {}).items() if _SECRET.search(name)]
    # An error may quote a whole value, or only the password that is in quotes within it.
    parts = {*values, *(part for value in values for part in _QUOTED_SECRET.findall(value))}
    for part in sorted(filter(None, parts), key=len, reverse=True):
        text = text.replace(part, "***")
    return text


def checked_names(key: str, value: str, taken: Sequence[str] = ()) -> tuple[str, str]:
    """Return the names of the two columns; refuse names that are taken."""
    for name, given in (("key", key), ("value", value)):
        if not isinstance(given, str) or not given:
            raise InputError(f"{name} must be the name of a column, got {given!r}")
        if given.lower() in taken:
            raise InputError(f"{name} must not have the name of another column ({', '.join(taken)}), got {given!r}")
    if key.lower() == value.lower():
        raise InputError(f"key and value must have different names, got {key!r} for both")
    return key, value


def _addresses(brokers: str) -> Iterator[tuple[str, str, int]]:
    """'a:1,[::1]:2' → ('a:1', 'a', 1), ('[::1]:2', '::1', 2)."""
    for place in brokers.split(",") if isinstance(brokers, str) else [""]:
        # The name of a listener may precede it, as in PLAINTEXT://host:9092.
        match = re.fullmatch(r"(?:\w+://)?(?:\[([0-9a-fA-F:.%]+)\]|([^\s:/\[\]]+)):(\d{1,5})", place.strip())
        if match is None or not 0 < int(match[3]) < 65536:
            raise InputError(
                f"brokers must be host:port, or several with commas, as in localhost:9092, got {brokers!r}"
            )
        yield place.strip(), match[1] or match[2], int(match[3])


def _no_answer(brokers: str, reason: str) -> InputError:
    return InputError(f"{brokers}: no Kafka broker answers ({reason}): start it, or check the address")


def _some(known: set[str], wanted: str) -> str:
    names = [name for name in known if not name.startswith("__")]
    if not names:
        return "there are no topics yet"
    alike = difflib.get_close_matches(wanted, names, n=_SHOWN, cutoff=0.4)
    shown = [*alike, *(name for name in sorted(names) if name not in alike)][:_SHOWN]
    return f"there are {', '.join(shown)}" + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _reason(problem: Exception) -> str:
    """Return what Java said; the first line of py4j only names the call."""
    return why(str(problem).partition("\n: ")[2] or str(problem)).rpartition("org.apache.kafka.common.")[2]
