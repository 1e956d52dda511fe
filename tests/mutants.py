"""Measure whether the tests notice a fault: put known faults into a copy of the sources, one at a time.

    ./dev python tests/mutants.py                           run all of mutants.toml
    ./dev python tests/mutants.py --in planned,kernels      run only those in these folders of src/keyspread
    ./dev python tests/mutants.py --not-in spark,job        run only those that need no Spark
    ./dev python tests/mutants.py --only fade,row           run only those with one of these words in their name
    ./dev python tests/mutants.py --results FILE            keep results in FILE; run only what it does not have yet
    ./dev python tests/mutants.py --check                   only check that every fault can still be placed

It prints one line per mutant, then a table by folder. The working tree is not changed. The copies are in .mutants: the
kernels compiled there are used by the next run. The exit code is 1 if a mutant survived or cannot be placed.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "src/keyspread"
COPIES = ROOT / ".mutants"
TIMEOUT = 1200  # seconds per mutant; a hang counts as noticed


def main() -> int:
    """Run the chosen mutants; print one line for each, then the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--in", dest="inside", default="", help="folders of src/keyspread, separated by commas")
    parser.add_argument("--not-in", dest="outside", default="", help="folders to leave out, separated by commas")
    parser.add_argument("--only", default="", help="words in the names of the mutants, separated by commas")
    parser.add_argument("--results", type=Path, help="a file to keep results in")
    parser.add_argument("--processes", type=int, default=1, help="how many mutants to run at a time (default 1)")
    parser.add_argument("--check", action="store_true", help="place the faults, run nothing")
    options = parser.parse_args()
    mutants = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text())["mutant"]
    chosen = [
        mutant
        for mutant in mutants
        if (not options.inside or is_in(mutant, options.inside))
        and not (options.outside and is_in(mutant, options.outside))
        and any(word in mutant["name"] for word in options.only.split(","))
    ]
    results = Results(options.results)
    copies: SimpleQueue[Path] = SimpleQueue()
    for number in range(options.processes):
        copies.put(COPIES / str(number))

    def run(mutant: dict) -> str:
        if options.check:
            return "placed" if text_of(mutant, ROOT) is not None else NOT_PLACED
        if mutant not in results:
            copy = copies.get()
            try:
                results[mutant] = judge(mutant, copy)
            finally:
                copies.put(copy)
        return results[mutant]

    if not options.check:
        for number in range(options.processes):
            copy_tracked_files(COPIES / str(number))
    found = []
    with ThreadPoolExecutor(options.processes) as pool:
        for mutant, result in zip(chosen, pool.map(run, chosen), strict=True):
            found.append(result)
            print(f"{mutant['name']:<45} {result}", flush=True)
    print_table(chosen, found)
    return 1 if any(result.startswith(("SURVIVED", NOT_PLACED)) for result in found) else 0


NOT_PLACED = "NOT PLACED: the text must occur exactly once"


def folder_of(mutant: dict) -> str:
    """Return the folder of the file that a mutant changes; "." for src/keyspread itself."""
    return str(Path(mutant["file"]).parent.relative_to(PACKAGE))


def is_in(mutant: dict, folders: str) -> bool:
    """Return whether a mutant is in one of the folders, or below it."""
    return any(f"{folder_of(mutant)}/".startswith(f"{folder}/") for folder in folders.split(","))


def print_table(mutants: list[dict], results: list[str]) -> None:
    """Print for each folder how many mutants there are and what became of them."""
    ends = ("placed", "killed", "SURVIVED", "NOT PLACED")
    counts = Counter((folder_of(mutant), result.split(":")[0]) for mutant, result in zip(mutants, results, strict=True))
    shown = [end for end in ends if any(result == end for _, result in counts)]
    print("\n| folder | mutants | " + " | ".join(shown) + " |\n|---|" + "---:|" * (len(shown) + 1))
    for folder in [*dict.fromkeys(map(folder_of, mutants)), "all"]:
        row = [sum(counts[one, end] for one in {*map(folder_of, mutants)} if folder in (one, "all")) for end in shown]
        print(f"| {folder} | {sum(row)} | " + " | ".join(map(str, row)) + " |")


class Results:
    """Results by what they depend on: the mutant, and the files that it names as they are now."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known = json.loads(path.read_text()) if path is not None and path.is_file() else {}

    def __contains__(self, mutant: dict) -> bool:
        return self.key(mutant) in self.known

    def __getitem__(self, mutant: dict) -> str:
        return self.known[self.key(mutant)]

    def __setitem__(self, mutant: dict, result: str) -> None:
        self.known[self.key(mutant)] = result
        if self.path is not None:
            self.path.write_text(json.dumps(dict(self.known), indent=0))

    @staticmethod
    def key(mutant: dict) -> str:
        digest = hashlib.sha256(json.dumps(mutant, sort_keys=True).encode())
        for name in [mutant["file"], *mutant["tests"]]:
            path = ROOT / name.split("::")[0]
            digest.update(path.read_bytes() if path.is_file() else b"")
        return f"{mutant['name']} {digest.hexdigest()[:16]}"


def copy_tracked_files(copy: Path) -> None:
    """Bring the copy up to date: exactly the files that git knows, as they are here, and the compiled kernels."""
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    wanted = {Path(name) for name in names.split("\0") if name and (ROOT / name).is_file()}
    for old in [path for path in copy.rglob("*") if path.is_file() and "__pycache__" not in path.parts]:
        if old.relative_to(copy) not in wanted:
            old.unlink()
    for name in wanted:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)


def text_of(mutant: dict, root: Path) -> str | None:
    """Return the text of the file to change; None if the fault cannot be placed in it."""
    path = root / mutant["file"]
    text = path.read_text() if path.is_file() else ""
    return text if text.count(mutant["old"]) == 1 and mutant["old"] != mutant["new"] else None


def judge(mutant: dict, copy: Path) -> str:
    """Return whether the tests noticed the fault, and which test did."""
    text = text_of(mutant, copy)
    if text is None:
        return NOT_PLACED
    with changed(copy / mutant["file"], text.replace(mutant["old"], mutant["new"])):
        return run_tests([*mutant["tests"], mutant["file"]], copy)


@contextmanager
def changed(path: Path, text: str) -> Iterator[None]:
    """Change a file, then restore it with its time: Numba compiles a file again if its time has changed."""
    before, times = path.read_text(), path.stat()
    path.write_text(text)
    try:
        yield
    finally:
        path.write_text(before)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def run_tests(tests: list[str], copy: Path) -> str:
    """Run the tests, then the doctests of the file, until one fails."""
    # Without bytecode: a file that changes twice within a second would look unchanged.
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", *tests]
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"killed: no end after {TIMEOUT} s"
    if done.returncode == 0:
        return "SURVIVED"
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return f"killed: {failed[-1][:110]}" if failed else f"NOT PLACED: pytest ended with {done.returncode}"


if __name__ == "__main__":
    sys.exit(main())
