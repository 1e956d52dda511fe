"""Select the tests to run, and start one Spark session per process for tests and doctests.

pytest leaves out the slow tests and says so in its last line.

    --quick   leave out the tests that start Spark, too
    --slow    run only the slow tests
"""

import os
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MARKERS = {
    "spark": "starts Spark; every test that uses the `spark` fixture has this marker",
    "slow": "takes long and is not the main path of an operation (a killed process, a cold start); --slow runs it",
    "connect": "also runs over Spark Connect, in test_connect.py",
}
LEFT_OUT = pytest.StashKey[dict[str, int]]()  # marker -> number of tests that were left out because of it


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options that select tests."""
    group = parser.getgroup("keyspread")
    group.addoption("--quick", action="store_true", help="leave out the slow tests and the tests that start Spark")
    group.addoption("--slow", action="store_true", help="run only the slow tests")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    config.stash[LEFT_OUT] = {}


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Mark the tests that use Spark; then, after -k and -m, leave out the tests that were not asked for."""
    for item in items:
        if isinstance(item, pytest.DoctestItem) and uses_session(item):
            item.fixturenames.insert(0, "spark")  # the session of the other tests, whichever comes first
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    result = yield
    chosen, others = [], []
    for item in items:
        reason = left_out_as(item, config)
        if reason is None:
            chosen.append(item)
        else:
            others.append(item)
            config.stash[LEFT_OUT][reason] = config.stash[LEFT_OUT].get(reason, 0) + 1
    if others:
        config.hook.pytest_deselected(items=others)
    if hasattr(config, "workerinput"):
        # In one of several processes: begin with the files that use Spark, which take longest, so that all processes
        # end at about the same time.
        long = {item.path for item in chosen if item.get_closest_marker("spark")}
        chosen.sort(key=lambda item: item.path not in long)
    items[:] = chosen
    return result


def uses_session(item: pytest.DoctestItem) -> bool:
    """Tell whether a doctest calls `session`."""
    return any("session(" in example.source for example in item.dtest.examples)


def left_out_as(item: pytest.Item, config: pytest.Config) -> str | None:
    """Return the marker because of which a test does not run now, or None if it runs."""
    slow = item.get_closest_marker("slow") is not None
    if config.option.slow:
        return None if slow else "quick"
    if slow:
        return "slow"
    if config.option.quick and item.get_closest_marker("spark"):
        return "spark"
    return None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker process of pytest-xdist, send the numbers to the process that prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash[LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the numbers of a worker process. All of them collect the same tests."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", {})


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Print, as the last line, how many tests were left out and how to run them."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    left_out = config.stash.get(LEFT_OUT, {})
    parts = [
        f"left out: {left_out[marker]} {name} (./dev test{option} runs them)"
        for marker, name, option in (("spark", "tests with Spark", ""), ("slow", "slow tests", " --slow"))
        if left_out.get(marker)
    ]
    if reporter is not None and parts:
        reporter.write_line("; ".join(parts))


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """Start a session with 2 cores, 4 attempts per task and 4 shuffle partitions; all tests of a process share it.

    If KEYSPREAD_TEST_REMOTE is set, it is a session over Spark Connect.
    """
    if find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed: pip install 'keyspread[spark,java]'")
    from keyspread.errors import InputError, JavaMissingError
    from keyspread.spark import session
    from keyspread.spark._launch.java import SHORT_LIVED

    remote = os.environ.get("KEYSPREAD_TEST_REMOTE")
    where = {"remote": remote} if remote else {"master": "local[2,4]"}
    config = {
        "spark.sql.shuffle.partitions": 4,
        "spark.python.daemon.module": "keyspread.spark._launch.daemon",  # saves two seconds per Python worker
        "spark.driver.extraJavaOptions": SHORT_LIVED,
    }
    try:
        running = session(**where, **config)
    except JavaMissingError as error:
        pytest.skip(str(error))
    except InputError as error:
        if not remote or "cannot download" not in str(error):
            raise
        pytest.skip(f"this Spark has no Connect server of its own: {error}")
    yield running
    running.stop()
