"""Types of what kernels take and return. Numba ignores annotations: these are for readers and for mypy.

The element types are a contract, though: a kernel is compiled once per combination of element types, so a caller
that passes another one waits for a compilation.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

Keys = npt.NDArray[np.uint64]
"""Hashes of keys. Unsigned, because mixing is arithmetic modulo 2^64."""

Bits = npt.NDArray[np.uint64]
"""Rows of bits, one bit per worker: worker w is bit w % 64 of word w // 64."""

Counts = npt.NDArray[np.int64]
"""Loads, counts, weights: whole numbers that may be large."""

Indices = npt.NDArray[np.int32]
"""Numbers of workers, counters or rows. -1 stands for none."""

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

Int = int | np.int32 | np.int64
"""One whole number. Compiled, a Python int is an np.int64; interpreted, they are different types."""


# How kernels are compiled, and where the compiled code is stored.
#
# `entry` marks a kernel that Python calls. It is stored on disk, so that only the first run on a machine compiles it.
# `part` marks a kernel that other kernels call. The name of the folder contains a hash of all kernel sources: Numba
# itself looks only at the file of the entry, and would run old code after a change in one of its parts.


Function = TypeVar("Function", bound=Callable[..., Any])

_config: Any = numba.config
_HERE = Path(__file__).parent


def _hash_of_sources() -> str:
    """Return a hash of all kernel sources and of the version of Numba."""
    digest = hashlib.sha256(numba.__version__.encode())
    sources = sorted(_HERE.glob("*.py"))
    if not sources:
        raise FileNotFoundError(_HERE)
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _is_ours(folder: Path) -> bool:
    """Return whether `folder` is writable and belongs to this user. Nobody else may put code there: it will be run."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=folder):
            pass
        return not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()
    except OSError:
        return False


def cache_folder() -> Path | None:
    """Return the folder for compiled kernels: the first of these that is writable, None if there is none.

    They are NUMBA_CACHE_DIR, the package's own folder, the user's cache folder and the temporary folder. On an
    executor, the package is often read-only and there is no home.
    """
    try:
        name = f"kernels-{_hash_of_sources()}"
    except OSError:  # imported from a zip: the sources cannot be read, so a cache could not tell old code from new
        return None
    user = os.getuid() if hasattr(os, "getuid") else "user"
    folders = [
        _HERE / "__pycache__" / name,
        Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "keyspread" / name,
        Path(tempfile.gettempdir()) / f"keyspread-{user}-{name}",  # directly: somebody else could own a folder between
    ]
    if _config.CACHE_DIR:
        folders.insert(0, Path(_config.CACHE_DIR) / name)
    return next((folder for folder in folders if _is_ours(folder)), None)


_FOLDER = cache_folder()
_njit: Any = numba.njit
# Kernels allocate nothing, so Numba need not count references to the arrays that it passes around. Without that
# (`_nrt`) they are 2 to 4 times as fast. With "numpy" a division by zero raises nothing, so it needs no check.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}


def entry(function: Function) -> Function:
    """Compile a kernel that Python calls, and store the result on disk."""
    if _FOLDER is None:
        return cast(Function, _njit(**_OPTIONS)(function))
    before = _config.CACHE_DIR  # Numba reads the setting here. It is restored, for kernels of other packages
    _config.CACHE_DIR = str(_FOLDER)
    try:
        return cast(Function, _njit(cache=True, **_OPTIONS)(function))
    finally:
        _config.CACHE_DIR = before


def part(function: Function) -> Function:
    """Compile a kernel that other kernels call into each of its callers.

    It is always inlined. An array is passed as seven numbers, so a call with three arrays costs more than most parts.
    """
    return cast(Function, _njit(forceinline=True, **_OPTIONS)(function))


# Machine instructions that Numba has no name for.


# The functions below generate code. Their arguments are types and builders of Numba, which has no type hints.


@intrinsic
def _trailing_zeros(typing_context: Any, x: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@intrinsic
def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        address = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        signature_of_prefetch = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        declare: Any = cgutils.get_or_insert_function
        instruction = declare(builder.module, signature_of_prefetch, "llvm.prefetch.p0")
        builder.call(instruction, [address, number(0), number(3), number(1)])  # to read, keep in all caches, data
        return context.get_dummy_value()

    return types.void(array, index), generate


trailing_zeros: Callable[[np.uint64], int] = cast(Any, _trailing_zeros)
"""Return the position of the lowest bit that is set; undefined for 0. 0b1100 has 2."""

prefetch: Callable[[npt.NDArray[np.generic], np.int64], None] = cast(Any, _prefetch)
"""Start to load array[index] of a contiguous array, without waiting for it."""
