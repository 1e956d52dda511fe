import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from typing import TYPE_CHECKING

import pytest

from keyspread.cli.commands import doctor as installation
from keyspread.cli.commands.doctor import Check, checks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def named(found: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in found}


def test_this_machine_has_everything() -> None:
    found = checks()
    assert [check for check in found if check.needed and not check.ok] == []
    assert all(check.ok or check.remedy for check in found)
    assert "cache in" in named(found)["kernels"].detail
    assert "spark starts" not in named(found)


def test_spark_is_started_on_request(spark: "SparkSession") -> None:
    found = named(checks(start_spark=True))["spark starts"]
    assert found.ok, found.detail
    assert spark.range(3).count() == 3  # a session that was already running is not stopped


def test_a_missing_package_names_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_installed(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installation, "version", none_installed)
    found = named(checks())
    assert found["pyspark"] == Check(
        "pyspark", False, "not installed, 3.5 or newer is needed", "pip install -U 'keyspread[spark]'"
    )
    assert not found["connect"].ok
    assert not found["connect"].needed
    assert not found["kafka"].needed


@pytest.mark.parametrize(("installed", "fits"), [("2.1.4", False), ("2.2.0", True), ("2.3.3", True), ("3.0.0", False)])
def test_pandas_must_be_below_3(monkeypatch: pytest.MonkeyPatch, installed: str, fits: bool) -> None:
    monkeypatch.setattr(installation, "version", lambda name: installed)
    assert installation._package("pandas", "2.2", "remedy", below="3").ok is fits


def test_whatever_breaks_becomes_a_check() -> None:
    def breaks() -> str:
        raise RuntimeError("cannot cache\nand more lines")

    assert installation._guarded("kernels", "remedy", breaks) == Check(
        "kernels", False, "RuntimeError: cannot cache", "remedy"
    )


def test_importing_it_imports_no_engine() -> None:
    script = "import sys, keyspread.cli.commands.doctor; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
