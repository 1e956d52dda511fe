"""A small disk for checkpoints, which can get full: a tmpfs. Mounting one needs root."""

import os
import subprocess
import tempfile
from pathlib import Path

SIZE = "256m"


def why_not() -> str | None:
    """Return why no disk can be mounted here, or None if it can."""
    with tempfile.TemporaryDirectory(prefix="keyspread-disk-") as folder:
        try:
            mount(Path(folder))
        except (OSError, subprocess.CalledProcessError) as problem:
            reason = getattr(problem, "stderr", "") or str(problem)
            return f"no disk can be mounted here: {' '.join(str(reason).split())}"
        unmount(Path(folder))
    return None


def mount(folder: Path) -> None:
    """Mount an empty disk."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "keyspread-faults", str(folder)]
    subprocess.run(command, check=True, capture_output=True, text=True)


def unmount(folder: Path) -> None:
    """Unmount the disk, if there is one, even if a process still has files on it."""
    if os.path.ismount(folder):
        subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)


def fill(folder: Path) -> None:
    """Write until there is no space left."""
    with (folder / "ballast").open("ab", buffering=0) as out:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while out.write(bytes(size)):
                    pass
            except OSError:
                continue


def free(folder: Path) -> None:
    """Make space again."""
    (folder / "ballast").unlink()
