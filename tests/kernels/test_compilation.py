"""Compiled code is stored in a folder that is writable, and never used after the sources have changed."""

import ctypes
import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import keyspread
from keyspread.kernels import compilation, routing

PACKAGE = Path(keyspread.__file__).parent
REPORT = """
import json, os, sys
import numpy as np
import keyspread
from keyspread.kernels import routing
from keyspread.kernels import compilation
kernel, routed = routing.route_by_key, np.empty(1000, np.int32)
kernel(np.arange(1000, dtype=np.uint64), routed, routing.Identity(np.uint64(7), 0), np.zeros(50, np.int64))
folder = compilation._FOLDER
print(json.dumps({
    "file": keyspread.__file__,
    "writable": os.access(sys.path[1], os.W_OK) or os.access(os.environ["HOME"], os.W_OK),
    "folder": folder and str(folder),
    "stored": sorted(p.name for p in folder.rglob("*.nbc")) if folder else [],
    "hits": sum(kernel.stats.cache_hits.values()),
    "misses": sum(kernel.stats.cache_misses.values()),
    "routed": routed.tolist(),
}))
"""


def obey_permissions():
    """Run between fork and exec: drop the capabilities that let root write where permissions forbid it."""
    if os.getuid() == 0:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            if prctl(24, capability, 0, 0, 0) != 0:  # PR_CAPBSET_DROP
                raise OSError(ctypes.get_errno(), "prctl")


def set_writable(top, writable):
    for path in [top, *top.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode | 0o200 if writable else mode & ~0o222)


class Machine:
    """What an executor often has: a read-only package and home, and an empty temporary folder."""

    def __init__(self, folder):
        self.site, self.home, self.temporary = folder / "site", folder / "home", folder / "temporary"
        for place in (self.site, self.home, self.temporary):
            place.mkdir()

    def install(self, change=lambda kernels: None):
        set_writable(self.site, True)
        shutil.rmtree(self.site / "keyspread", ignore_errors=True)
        shutil.copytree(PACKAGE, self.site / "keyspread", ignore=shutil.ignore_patterns("__pycache__"))
        change(self.site / "keyspread" / "kernels")

    def run(self, import_from=None):
        set_writable(self.site, False)
        set_writable(self.home, False)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "XDG"))}
        environment |= {
            "PYTHONPATH": str(import_from or self.site),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
        }
        try:
            done = subprocess.run(
                [sys.executable, "-c", REPORT],
                env=environment,
                cwd=self.temporary,
                preexec_fn=obey_permissions,
                capture_output=True,
                text=True,
            )
        except subprocess.SubprocessError as problem:
            pytest.skip(f"root cannot be made to obey permissions here: {problem}")
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert not report["writable"]
        assert report["file"].startswith(str(self.site))
        return report


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path)
    yield machine
    for place in (machine.site, machine.home):
        set_writable(place, True)


def expected():
    routed = np.empty(1000, np.int32)
    routing.route_by_key(
        np.arange(1000, dtype=np.uint64), routed, routing.Identity(np.uint64(7), 0), np.zeros(50, np.int64)
    )
    return routed.tolist()


@pytest.mark.slow
def test_where_only_the_temporary_folder_is_writable_the_cache_goes_there_and_follows_every_source(machine):
    machine.install()
    first = machine.run()
    assert Path(first["folder"]).is_relative_to(machine.temporary)
    assert stat.S_IMODE(Path(first["folder"]).stat().st_mode) == 0o700
    assert first["routed"] == expected()
    assert first["misses"] == 1
    assert first["stored"]
    second = machine.run()
    assert (second["hits"], second["misses"]) == (1, 0)
    assert second["stored"] == first["stored"]
    assert second["routed"] == expected()

    def change_the_mixing(kernels):  # not the file of the entry, but that of one of its parts
        source = kernels / "mixing.py"
        source.write_text(source.read_text().replace("0xBF58476D1CE4E5B9", "0xBF58476D1CE4E5BB"))

    machine.install(change_the_mixing)
    third = machine.run()
    assert third["folder"] != first["folder"]
    assert third["misses"] == 1
    assert third["routed"] != expected()


def test_from_a_zip_everything_works_and_nothing_is_stored(machine):
    """Spark may ship Python files to executors in a zip."""
    archive = machine.site / "keyspread.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for source in PACKAGE.rglob("*.py"):
            zipped.write(source, source.relative_to(PACKAGE.parent))
    report = machine.run(import_from=archive)
    assert report["folder"] is None
    assert report["routed"] == expected()


def test_the_first_writable_folder_is_used(monkeypatch, tmp_path):
    asked = []

    def refuse(folder):
        asked.append(folder)
        return False

    monkeypatch.setattr(compilation, "_is_ours", refuse)
    monkeypatch.setattr(compilation._config, "CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert compilation.cache_folder() is None
    own, package, cache, temporary = asked
    assert own.parent == tmp_path / "own"
    assert package.parent == PACKAGE / "kernels" / "__pycache__"
    assert cache.parent == tmp_path / "cache" / "keyspread"
    assert temporary.name.startswith("keyspread-")
    for place in asked:
        monkeypatch.setattr(compilation, "_is_ours", lambda folder, place=place: folder == place)
        assert compilation.cache_folder() == place


def test_a_folder_of_another_user_is_not_ours(tmp_path):
    """Compiled code is executed: a user who can write it can run code as this user."""
    assert compilation._is_ours(tmp_path / "mine")
    if os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 65534, 65534)
    assert not compilation._is_ours(tmp_path / "theirs")
