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
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "src/keyspread"
COPIES = ROOT / ".mutants"
TIMEOUT = 1200  # seconds per mutant; a hang counts as noticed
OUTPUT = "pytest.txt"
PRELOADED = ("pytest", "hypothesis", "numba", "pandas", "pyarrow", "pyspark.sql", "xxhash")  # not keyspread itself


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
    results = Results(options.results, chosen)
    if options.check:
        found = {mutant["name"]: "placed" if text_of(mutant, ROOT) else NOT_PLACED for mutant in chosen}
    else:
        found = {mutant["name"]: results[mutant] for mutant in chosen if mutant in results}
    for name, result in found.items():
        print(f"{name:<45} {result}")
    for mutant, result in run_all([mutant for mutant in chosen if mutant["name"] not in found], options.processes):
        results[mutant] = found[mutant["name"]] = result
        print(f"{mutant['name']:<45} {result}", flush=True)
    print_table(chosen, [found[mutant["name"]] for mutant in chosen])
    return 1 if any(result.startswith(("SURVIVED", "NOT PLACED")) for result in found.values()) else 0


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
    """Results by what they depend on: the mutant, and the files that it names as they are when the run begins."""

    def __init__(self, path: Path | None, mutants: list[dict]) -> None:
        self.path, self.keys = path, {mutant["name"]: key_of(mutant) for mutant in mutants}
        self.known = json.loads(path.read_text()) if path is not None and path.is_file() else {}

    def __contains__(self, mutant: dict) -> bool:
        return self.keys[mutant["name"]] in self.known

    def __getitem__(self, mutant: dict) -> str:
        return self.known[self.keys[mutant["name"]]]

    def __setitem__(self, mutant: dict, result: str) -> None:
        self.known[self.keys[mutant["name"]]] = result
        if self.path is not None:
            self.path.write_text(json.dumps(self.known, indent=0))


def key_of(mutant: dict) -> str:
    """Return the name and a digest of a mutant, the file that it changes and its tests."""
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
        if name.suffix == ".py":
            write(copy / name, (ROOT / name).read_text())
        else:
            shutil.copy2(ROOT / name, copy / name)


def text_of(mutant: dict, root: Path) -> str | None:
    """Return the text of the file to change; None if the fault cannot be placed in it."""
    path = root / mutant["file"]
    text = path.read_text() if path.is_file() else ""
    return text if text.count(mutant["old"]) == 1 and mutant["old"] != mutant["new"] else None


class Run(NamedTuple):
    """The tests of one mutant, which run in a process and a copy of their own."""

    mutant: dict
    copy: Path
    before: str  # the text of the changed file
    deadline: float


def run_all(mutants: list[dict], processes: int) -> Iterator[tuple[dict, str]]:
    """Run the tests of all mutants, so many at a time; yield each result as it comes."""
    if not mutants:
        return
    for module in PRELOADED:
        try:
            importlib.import_module(module)
        except ImportError:
            continue  # the tests that need it are skipped, or fail
    free = [COPIES / str(number) for number in range(processes)]
    for copy in free:
        copy_tracked_files(copy)
    waiting, running = mutants[::-1], dict[int, Run]()
    while waiting or running:
        if waiting and free:
            mutant, copy = waiting.pop(), free.pop()
            before = text_of(mutant, copy)
            if before is None:
                free.append(copy)
                yield mutant, NOT_PLACED
                continue
            write(copy / mutant["file"], before.replace(mutant["old"], mutant["new"]))
            pid = start_tests([*mutant["tests"], mutant["file"]], copy)
            running[pid] = Run(mutant, copy, before, time.monotonic() + TIMEOUT)
            continue
        for pid, run in list(running.items()):
            late = time.monotonic() > run.deadline
            if late:
                os.killpg(pid, signal.SIGKILL)
            ended, status = os.waitpid(pid, 0 if late else os.WNOHANG)
            if ended:
                del running[pid]
                write(run.copy / run.mutant["file"], run.before)
                free.append(run.copy)
                yield run.mutant, f"killed: no end after {TIMEOUT} s" if late else judge(run.copy, status)
        time.sleep(0.2)


def write(path: Path, text: str) -> None:
    """Write a file with a time that follows from its text, by which Python and Numba tell whether it has changed."""
    path.write_text(text)
    os.utime(path, (0, zlib.crc32(text.encode())))


def start_tests(tests: list[str], copy: Path) -> int:
    """Run the tests, then the doctests of the file, until one fails, in a process of their own; return its id."""
    pid = os.fork()  # with all modules that it needs already imported
    if pid:
        return pid
    os.setsid()
    os.chdir(copy)
    with (copy / OUTPUT).open("w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.environ["PYTHONPATH"] = str(copy / "src")  # for the processes that tests start
    os.environ["KEYSPREAD_TEST_NO_SHRINKING"] = "yes"
    sys.dont_write_bytecode = False  # most files are those of the last mutant
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.path.insert(0, str(copy / "src"))
    import pytest

    try:
        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", *tests]))
    except BaseException as problem:
        print(f"ERROR {problem!r}")
        code = 99
    sys.stdout.flush()
    os._exit(code)


def judge(copy: Path, status: int) -> str:
    """Return whether the tests noticed the fault, and which test did."""
    if status == 0:
        return "SURVIVED"
    if os.WIFSIGNALED(status):
        return f"killed: the process died of signal {os.WTERMSIG(status)}"
    lines = (copy / OUTPUT).read_text(errors="replace").splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    if not failed:
        return f"NOT PLACED: pytest ended with {os.waitstatus_to_exitcode(status)}"
    return f"killed: {failed[-1][:110]}"


if __name__ == "__main__":
    sys.exit(main())
