"""A real Kafka broker of one node, in KRaft mode, on free ports of 127.0.0.1; always stopped, its data deleted.

It needs only the installed Python packages and the Java that keyspread finds. The jars are downloaded from Maven
Central by the Ivy that comes with Spark, with the machine's own settings, and cached in ~/.cache/keyspread.
"""

import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from xml.sax.saxutils import quoteattr

KAFKA = "3.9.2"
_ASK_AGAIN = 24 * 3600  # seconds until Maven Central is asked again for a module that it lacked
_CLUSTER = "a2V5c3ByZWFkLXRlc3RzAA"  # any 16 bytes, in base 64
_LOG4J = """status = off
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c{1})%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""

# Maven Central may lack the connector of the installed Spark, or the token provider that it needs. Seen: all of Spark
# 4.3.0, the newest patch of every other version, and every token provider from 4.1.0 on. Then a token provider that
# exists, older patches of the same version, and at last an older version are tried.
_TOKENS = "spark-token-provider-kafka-0-10_2.13"
_TOKENS_THERE = "4.1.0-preview1"
_OLDER = "4.2.0"


class RegistryOutOfReachError(Exception):
    """The jars could not be downloaded; the message is the reason to skip."""


class NotThereError(RegistryOutOfReachError):
    """The registry answered, and lacks the jars."""


def connector_jars() -> tuple[str, list[Path]]:
    """Return a description of the Kafka connector, and its jars for a session's `spark.jars`."""
    from keyspread.spark.kafka import connector

    group, module, own = connector().split(":")
    reasons = []
    is_of_4 = module.endswith("_2.13")
    versions = [*_patches(own), *([_OLDER] if is_of_4 else [])]
    for version, tokens in product(versions, [None, *([_TOKENS_THERE] if is_of_4 else [])]):
        tokens = tokens or version
        name = f"{module}:{version}" + ("" if tokens == version else f" with {_TOKENS}:{tokens}")
        wanted = [(group, module, version)]
        if tokens != version:
            # Not transitive, so that the version that it asks for does not replace the one that exists.
            wanted.append((group, _TOKENS, tokens))
        try:
            return name, _fetched(f"{module}-{version}-{tokens}", wanted, skip_tokens=tokens != version)
        except RegistryOutOfReachError as problem:
            reasons.append(str(problem))
    raise RegistryOutOfReachError(reasons[0])


def _patches(version: str) -> list[str]:
    """Return the version and all older patches of it, newest first: 3.5.2, 3.5.1, 3.5.0."""
    whole, _, patch = version.rpartition(".")
    return [version] if not patch.isdigit() else [f"{whole}.{number}" for number in range(int(patch), -1, -1)]


def broker_jars() -> list[Path]:
    """Return the class path of a broker."""
    return _fetched(f"broker-{KAFKA}", [("org.apache.kafka", "kafka_2.13", KAFKA)])


def _fetched(name: str, wanted: list[tuple[str, str, str]], skip_tokens: bool = False) -> list[Path]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "keyspread" / "kafka"
    folder, missing = cache / name, cache / f"{name}.missing"
    if missing.is_file() and time.time() - missing.stat().st_mtime < _ASK_AGAIN:
        raise NotThereError(missing.read_text())
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as unfinished:
            jars = Path(unfinished) / "jars"
            try:
                _resolve(wanted, jars, cache / "ivy", skip_tokens)
            except NotThereError as problem:
                missing.write_text(str(problem))
                raise
            try:
                jars.rename(folder)
            except OSError:  # another process was faster
                if not folder.is_dir():
                    raise
    return sorted(folder.glob("*.jar"))


def _resolve(wanted: list[tuple[str, str, str]], jars: Path, cache: Path, skip_tokens: bool) -> None:
    """Download the jars of these modules, and of all dependencies that Spark lacks, into a folder, with Ivy."""
    lines = []
    for group, module, version in wanted:
        transitive = str(module != _TOKENS or not skip_tokens).lower()
        attributes = (
            f'org={quoteattr(group)} name={quoteattr(module)} rev={quoteattr(version)} transitive="{transitive}"'
        )
        # Spark excludes the same modules when it resolves spark.jars.packages, because it has them.
        left_out = [
            "spark-tags_2.12",
            "spark-tags_2.13",
            "scala-library",
            "hadoop-client-runtime",
            *([_TOKENS] if skip_tokens else []),
        ]
        has_spark = group == "org.apache.spark" and module != _TOKENS
        excluded = "".join(f'<exclude module="{one}"/>' for one in left_out if has_spark)
        lines.append(f'<dependency {attributes} conf="default->default">{excluded}</dependency>')
    ivy = jars.with_name("ivy.xml")
    head = '<info organisation="keyspread" module="tests"/><configurations><conf name="default"/></configurations>'
    ivy.write_text(f'<ivy-module version="2.0">{head}<dependencies>{"".join(lines)}</dependencies></ivy-module>')
    trusted = _trust_store(jars.with_name("trusted.jks"))
    command = [_java(), *trusted, "-cp", f"{_spark_jars()}/*", "org.apache.ivy.Main", "-m2compatible"]
    command += ["-cache", str(cache), "-ivy", str(ivy), "-confs", "default", "-types", "jar", "bundle"]
    command += ["-retrieve", f"{jars}/[artifact]-[revision].[ext]", "-warn"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode or not any(jars.glob("*.jar")):
        said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        module = ":".join(wanted[0])
        unreached = [line for line in said if line.startswith(("HttpClientHandler: ", "Host "))]
        if unreached:
            reason = unreached[0].removeprefix("HttpClientHandler: ").partition(" url=")[0]
            raise RegistryOutOfReachError(f"Maven Central cannot be reached for {module}: {reason}")
        lacking = [line for line in said if line.startswith("module not found: ")]
        if lacking:
            raise NotThereError(f"Maven Central lacks a part of {module}: {lacking[0]}")
        raise RegistryOutOfReachError(f"{module} could not be downloaded: {(said or ['Ivy gave no reason'])[-1]}")


def _trust_store(path: Path) -> list[str]:
    """Write the certificates that this machine trusts as a Java key store, and return the Java options that use it.

    The packaged Java has a key store of its own, so without this it cannot connect through a proxy whose certificate
    only the machine trusts. Returns no options if the machine has no such certificates.
    """
    bundle = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    text = Path(bundle).read_text() if bundle and Path(bundle).is_file() else ""
    found = re.findall("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", text, re.DOTALL)
    if not found:
        return []
    store = struct.pack(">III", 0xFEEDFEED, 2, len(found))  # the header of a JKS file, version 2
    for number, certificate in enumerate(found):
        der, name = ssl.PEM_cert_to_DER_cert(certificate), str(number).encode()
        store += struct.pack(">IH", 2, len(name)) + name + struct.pack(">QH", 0, 5) + b"X.509"
        store += struct.pack(">I", len(der)) + der
    path.write_bytes(store + bytes(20))  # a digest, which Java checks only with a password
    return [f"-Djavax.net.ssl.trustStore={path}", "-Djavax.net.ssl.trustStoreType=JKS"]


class Broker:
    """A broker that keeps its address and its data when it is stopped and started again."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.port, self._controller = _free_ports(2)
        self.address = f"127.0.0.1:{self.port}"
        self.log = folder / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._jars = broker_jars()
        self._java = _java()
        (folder / "log4j2.properties").write_text(_LOG4J)
        self._settings = folder / "server.properties"
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": folder / "data",
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 1,
            "num.network.threads": 2,
            "num.io.threads": 2,
            "group.initial.rebalance.delay.ms": 0,
        }
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._run("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(self._settings)).wait(60)

    def _run(self, *arguments: str) -> "subprocess.Popen[bytes]":
        jars = _spark_jars()
        logging = sorted([*jars.glob("log4j-[acs]*.jar"), *jars.glob("slf4j-api*.jar")])  # not Kafka's old slf4j
        kafka = [jar for jar in self._jars if not jar.name.startswith("slf4j")]
        command = [self._java, "-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        command += [f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"]
        command += ["-cp", os.pathsep.join(map(str, [*logging, *kafka]))]
        with self.log.open("ab") as out:
            return subprocess.Popen([*command, *arguments], stdout=out, stderr=out, stdin=subprocess.DEVNULL)

    @property
    def is_stopped(self) -> bool:
        """Whether the broker is stopped."""
        return self._process is None

    def start(self, seconds: float = 60) -> None:
        """Start the broker, and return when it answers."""
        assert self._process is None
        self._process = self._run("kafka.Kafka", str(self._settings))
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self._process.poll() is not None:
                break
            try:
                self._ask(3, 1, struct.pack(">i", 0))  # the metadata of no topic
                return
            except OSError:
                time.sleep(0.2)
        raise AssertionError(f"the broker did not start: {self.log.read_text(errors='replace')[-3000:]}")

    def stop(self, hard: bool = False) -> None:
        """Stop the broker, and return when it has ended; `hard` kills it, as kill -9 does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL if hard else signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def create_topic(self, name: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        """Create a topic, and return when all of its partitions have leaders."""
        # CreateTopics, version 2: [name, partitions, replicas, no assignments, settings], timeout, validate only
        body = struct.pack(">i", 1) + _text(name) + struct.pack(">ihi", partitions, 1, 0)
        body += struct.pack(">i", len(settings or {}))
        body += b"".join(_text(option) + _text(value) for option, value in (settings or {}).items())
        body += struct.pack(">i?", 30000, False)
        end = time.monotonic() + 30
        while True:
            answer = self._ask(19, 2, body)
            length = struct.unpack_from(">h", answer, 8)[0]  # after the throttle time and the number of topics
            (code,) = struct.unpack_from(">h", answer, 10 + length)
            if code == 0:
                break
            assert time.monotonic() < end, f"topic {name} was not created: error {code}"
            time.sleep(0.2)
        while self._leaders(name) < partitions:
            assert time.monotonic() < end, f"topic {name} has no leaders"
            time.sleep(0.1)

    def _leaders(self, topic: str) -> int:
        """Count the partitions that the broker leads; a consumer would wait for the others."""
        answer = self._ask(3, 1, struct.pack(">i", 1) + _text(topic))
        # Metadata, version 1: one broker (id, host, port, rack), the controller, one topic (error, name, internal, …)
        at = 4 + 4
        at += 2 + struct.unpack_from(">h", answer, at)[0] + 4 + 2 + 4 + 4 + 2
        at += 2 + struct.unpack_from(">h", answer, at)[0] + 1
        (partitions,) = struct.unpack_from(">i", answer, at)
        at, leaders = at + 4, 0
        for _ in range(partitions):
            error, _, leader, replicas = struct.unpack_from(">hiii", answer, at)
            at += 14 + 4 * replicas
            at += 4 + 4 * struct.unpack_from(">i", answer, at)[0]
            leaders += error == 0 and leader == 1
        return leaders

    def _ask(self, api: int, version: int, body: bytes) -> bytes:
        message = struct.pack(">hhi", api, version, 7) + _text("tests") + body
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as line:
            line.sendall(struct.pack(">i", len(message)) + message)
            (length,) = struct.unpack(">i", _exactly(line, 4))
            return _exactly(line, length)[4:]


def _java() -> str:
    from keyspread.spark._launch.java import find_java

    return str(find_java().home / "bin" / "java")


def _spark_jars() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


@contextmanager
def broker() -> Iterator[Broker]:
    """Yield a running broker; afterwards, stop it and delete its data."""
    folder = Path(tempfile.mkdtemp(prefix="keyspread-kafka-"))
    one = None
    try:
        one = Broker(folder)
        one.start()
        yield one
    finally:
        if one is not None:
            one.stop(hard=True)
        shutil.rmtree(folder, ignore_errors=True)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _exactly(line: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = line.recv(length - len(data))
        if not more:
            raise ConnectionError("the broker hung up")
        data += more
    return data


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
