"""Kafka without a broker. kafka_cases.py needs a real one: tests/compatibility/test_kafka.py runs it on any Spark."""

import socket
import sys
import traceback

import pytest

pytest.importorskip("pyspark")

import pyspark
from py4j.protocol import Py4JError

from keyspread.errors import InputError
from keyspread.spark.kafka import check_brokers, connector, kafka_source, parsed, split, with_kafka


def test_the_connector_belongs_to_the_installed_spark(monkeypatch):
    scala = {"3": "2.12", "4": "2.13"}[pyspark.__version__[0]]
    assert connector() == f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{pyspark.__version__}"
    monkeypatch.setattr(pyspark, "__version__", "4.1.0.dev3")
    assert connector().endswith(":4.1.0-preview3")


def test_with_kafka_adds_the_connector_once_and_changes_nothing_else():
    assert with_kafka() == {"spark.jars.packages": connector()}
    given = {"master": "local[2]", "spark.jars.packages": "a:b:1"}
    assert with_kafka(given) == {"master": "local[2]", "spark.jars.packages": f"a:b:1,{connector()}"}
    assert given["spark.jars.packages"] == "a:b:1"
    for own in (with_kafka(), {"spark.jars": "/x/spark-sql-kafka-0-10_2.13-4.2.0.jar"}, {"remote": "sc://host"}):
        assert with_kafka(own) == own


@pytest.mark.parametrize("brokers", ["", "localhost", "localhost:0", "a:99999", "a b:1", "a:1,,b:2", None])
def test_invalid_addresses_of_brokers_are_refused(brokers):
    with pytest.raises(
        InputError, match="brokers must be host:port, or several with commas, as in localhost:9092, got"
    ):
        check_brokers(brokers)


def test_brokers_that_do_not_answer_are_refused(unused_ports):
    one, other = unused_ports
    with pytest.raises(InputError, match=f"^{one}: no Kafka broker answers .Connection refused.: start it, or check"):
        check_brokers(one)
    with pytest.raises(InputError, match=f"^{one},{other}: no Kafka broker .*{one}: Connection.*{other}: Connection"):
        check_brokers(f"{one},{other}")
    with pytest.raises(InputError, match="no Kafka broker answers"):
        check_brokers("no-such-host.invalid:9092", timeout=2)


def test_one_broker_that_answers_is_enough(unused_ports, listening):
    check_brokers(f"{unused_ports[0]},PLAINTEXT://{listening}")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topic": "a b"}, "topic must be the name of a Kafka topic"),
        ({"key": "value"}, "key and value must have different names, got 'value' for both"),
        (
            {"key": "Offset"},
            r"key must not have the name of another column \(topic, partition, offset, timestamp\), got 'Offset'",
        ),
        ({"starting": "begin"}, "starting must be 'earliest', 'latest' or offsets such as .*, got 'begin'"),
        ({"starting": {"other": {"0": 1}}}, "starting must have the offsets of topic, got offsets of other"),
        ({"starting": "latest", "streaming": False}, "reads nothing"),
        (
            {"max_rows": 5, "streaming": False},
            "max_rows limits the micro-batches of a stream, got 5 with streaming=False: leave it out",
        ),
        (
            {"options": {"startingOffsets": "latest"}},
            "option 'startingOffsets' is set by the parameter starting: leave it out",
        ),
    ],
)
def test_parameters_are_checked_before_the_broker_is_asked(given, message):
    with pytest.raises(InputError, match=message):
        kafka_source(None, "localhost:1", **{"topic": "topic", **given})


def test_a_session_without_the_connector_is_refused(spark, listening):
    with pytest.raises(InputError, match="this Spark was started without its Kafka connector: start it with session"):
        kafka_source(spark, listening, "topic")


def test_split_needs_the_result_of_parsed(spark):
    with pytest.raises(InputError, match="there is no column '_malformed': pass the result of parsed"):
        split(spark.range(1))


@pytest.fixture
def unused_ports():
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))  # bound, but not listening: refused
        yield [f"127.0.0.1:{port.getsockname()[1]}" for port in (one, other)]


@pytest.fixture
def listening():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        yield f"127.0.0.1:{one.getsockname()[1]}"


GOOD = ['{"a":1}', ' {"a":null} ', "{}", None]
BAD = ['{"a":1} {"a":2}', '{"a":1},{"a":2}', '{"a":1}}', "5", "null", "", "[]", '[{"a":1}]', "no JSON"]


def test_values_are_one_object_or_malformed(spark):
    rows = parsed(spark.createDataFrame([(value,) for value in GOOD + BAD], "value string"), "a INT")
    good, bad = split(rows)
    assert [row.a for row in good.collect()] == [1, None, None, None]
    assert [row.value for row in bad.collect()] == BAD


def test_no_message_shows_a_secret_of_the_options(monkeypatch):
    """Kafka's client may quote what it refuses; what we raise has neither the value nor the password in it."""
    checks = sys.modules["keyspread.spark.kafka.connector"]  # `connector` of the package is the function

    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="fish & chips";'
    options = {"kafka.sasl.jaas.config": login, "kafka.ssl.keystore.password": "open-sesame"}

    def refuses(spark, settings):
        raise Py4JError(f"x\n: org.apache.kafka.common.KafkaException: bad {login} and 'fish & chips', open-sesame")

    monkeypatch.setattr(checks, "admin_client", refuses)
    with pytest.raises(InputError, match="refuses the options") as caught:
        checks.check_topic(None, "localhost:9092", "clicks", options=options)
    shown = "".join(traceback.format_exception(caught.value))
    assert "fish" not in shown.rpartition("InputError")[2]
    assert "sesame" not in shown.rpartition("InputError")[2]
    assert caught.value.__suppress_context__
