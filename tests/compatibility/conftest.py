"""Write what works on this Spark: if KEYSPREAD_WORKS names a file, every test adds its line, and matrix.py reads it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def instead(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Return a function that says what this Spark does instead of the whole feature; the table shows it."""
    return lambda text: request.node.user_properties.append(("instead", text))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """Add a line to the file when a test has run."""
    report = yield
    file = os.environ.get("KEYSPREAD_WORKS")
    title = (getattr(getattr(item, "function", None), "__doc__", None) or "").partition("\n")[0]
    if file and title and (report.when == "call" or not report.passed):
        found = dict(item.user_properties).get("instead", "yes") if report.passed else report.outcome
        connect = "KEYSPREAD_TEST_REMOTE" in os.environ
        line = {"feature": title.rstrip("."), "connect": connect, "found": found}
        with Path(file).open("a", encoding="utf-8") as out:
            print(json.dumps(line), file=out)
    return report
