"""Time and peak memory of figure 10 at full size, over all processes.

20 skews, n = 5, 10, 50, 100, |K| = 10^4, 10^5, 10^6, four schemes, 10^7 messages: 960 simulations per seed. The bars
are 30 minutes on two cores and 6 GB. The time is absolute, because the bar is.

    ./dev bench full_grid [SEEDS]
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import numbers, show, verdict

MINUTES, GIGABYTES = 30, 6.0
KEYSPREAD = str(Path(sys.executable).with_name("keyspread"))


def family(root: int) -> list[int]:
    """Return a process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found


def memory(processes: list[int]) -> int:
    """Return the bytes in memory; pages that several processes share count once."""
    total = 0
    for process in processes:
        try:
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))
    return total


def main() -> None:
    (seeds,) = numbers(seeds=1)
    with tempfile.TemporaryDirectory() as folder:
        command = [KEYSPREAD, "reproduce", "10", "--size", "paper", "--seeds", str(seeds), "--json"]
        start, peak = time.monotonic(), 0
        process = subprocess.Popen([*command, "--out", folder], stdout=subprocess.PIPE, text=True)
        while process.poll() is None:
            peak = max(peak, memory(family(process.pid)))
            time.sleep(1)
        minutes = (time.monotonic() - start) / 60
        said = json.loads(process.stdout.read() if process.stdout else "{}")
        if process.returncode:
            raise SystemExit(process.returncode)
    gigabytes = peak / 1e9
    show(
        f"Figure 10, full grid, {seeds} seed(s), {os.cpu_count()} cores",
        ["", "measured", "bar", "verdict"],
        [
            ["minutes", f"{minutes:.1f}", f"{MINUTES}", verdict(minutes <= MINUTES)],
            ["peak memory, GB", f"{gigabytes:.1f}", f"{GIGABYTES:.0f}", verdict(gigabytes <= GIGABYTES)],
        ],
    )
    for claim in said["figures"][0]["verdicts"]:
        print(f"{claim['outcome']}: {claim['claim']} ({claim['measured']})")


if __name__ == "__main__":
    main()
