"""Time from the start of a process to its first routed message, without and with cached kernels.

The times are printed as ratios to `import numba` alone, in the same run.
"""

import os
import subprocess
import sys
import tempfile
import time

from common import show

CODE = "import numpy as np, keyspread as ks; ks.Sender({scheme!r}, 50).route(np.arange(1000))"


def seconds(code: str, cache: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-P", "-c", code], check=True, env={**os.environ, "NUMBA_CACHE_DIR": cache})
    return time.perf_counter() - begin


def main() -> None:
    rows = []
    for scheme in ("partial-key", "w-choices", "d-choices"):
        with tempfile.TemporaryDirectory() as cache:
            alone = min(seconds("import numba", cache) for _ in range(3))
            first = seconds(CODE.format(scheme=scheme), cache)
            later = min(seconds(CODE.format(scheme=scheme), cache) for _ in range(3))
        rows.append((scheme, f"{first:.1f} s", f"{first / alone:.1f} x", f"{later:.1f} s", f"{later / alone:.1f} x"))
    show("Start to first message", ("scheme", "compiling", "/ import numba", "from the cache", "/ import numba"), rows)


if __name__ == "__main__":
    main()
