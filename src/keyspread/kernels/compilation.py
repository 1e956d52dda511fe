"""How kernels are compiled, and where the compiled code is kept.

`entry` marks what Python calls (kept on disk, so that only the first run on a machine compiles), `part` what
other kernels call. The folder of the compiled code carries a hash of all kernel sources: Numba itself looks
only at the file of the entry and would run old code after a change in one of its parts.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

_config: Any = numba.config
_HERE = Path(__file__).parent


def _fingerprint() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    sources = sorted(_HERE.glob("*.py"))
    if not sources:
        raise FileNotFoundError(_HERE)
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _is_ours(folder: Path) -> bool:
    """Whether `folder` is writable and belongs to us: compiled code is run, so nobody else may put it there."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
        return not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()
    except OSError:
        return False


def cache_folder() -> Path | None:
    """Where compiled kernels are kept: the first of these that is writable, None if there is none.

    The user's NUMBA_CACHE_DIR, the package's own folder, the user's cache folder, the temporary folder. On an
    executor the package is often read-only and there is no home.
    """
    try:
        name = f"kernels-{_fingerprint()}"
    except OSError:  # imported from a zip: the sources cannot be read one by one, so nothing safe to key a cache by
        return None
    user = os.getuid() if hasattr(os, "getuid") else "user"
    folders = [
        _HERE / "__pycache__" / name,
        Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "keyspread" / name,
        Path(tempfile.gettempdir()) / f"keyspread-{user}-{name}",  # no folder between that somebody else could own
    ]
    if _config.CACHE_DIR:
        folders.insert(0, Path(_config.CACHE_DIR) / name)
    return next((folder for folder in folders if _is_ours(folder)), None)


_FOLDER = cache_folder()
_njit: Any = numba.njit
# Kernels allocate nothing, so Numba need not count references to the arrays it passes around: they run 2 to 4
# times as fast without (`_nrt`). "numpy": no exception for a division by zero, hence no check before each.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}


def entry(function: Function) -> Function:
    """Compile a kernel that Python calls, and keep the result on disk."""
    if _FOLDER is None:
        return cast(Function, _njit(**_OPTIONS)(function))
    users_own = _config.CACHE_DIR  # Numba reads this while it decorates; other code's kernels keep their place
    _config.CACHE_DIR = str(_FOLDER)
    try:
        return cast(Function, _njit(cache=True, **_OPTIONS)(function))
    finally:
        _config.CACHE_DIR = users_own


def part(function: Function) -> Function:
    """Compile a kernel that other kernels call, into each of its callers.

    Always inlined: an array is passed as seven numbers, and a call with three arrays costs more than most parts do.
    """
    return cast(Function, _njit(forceinline=True, **_OPTIONS)(function))
