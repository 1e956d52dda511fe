"""Measure whether the tests notice a fault: put known faults into a copy of the sources, one at a time.

    ./dev python tests/mutants.py                    run all of mutants.toml
    ./dev python tests/mutants.py --group core       run only those that need no Spark
    ./dev python tests/mutants.py --only fade,row    run only those with one of these words in their name
    ./dev python tests/mutants.py --check            only check that every fault can still be placed

The working tree is not changed. The exit code is 1 if a mutant survived or cannot be placed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT = 1200  # seconds per mutant; a hang counts as noticed


def main() -> int:
    """Run the chosen mutants and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--group", choices=["core", "spark"])
    parser.add_argument("--only", default="", help="words in the names of the mutants, separated by commas")
    parser.add_argument("--check", action="store_true", help="place the faults, run nothing")
    options = parser.parse_args()
    mutants = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text())["mutant"]
    chosen = [
        mutant
        for mutant in mutants
        if options.group in (None, mutant["group"]) and any(word in mutant["name"] for word in options.only.split(","))
    ]
    results: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder)
        copy_tracked_files(copy)
        for mutant in chosen:
            result = judge(mutant, copy, options.check)
            results[result.split(":")[0]] += 1
            print(f"{mutant['name']:<45} {result}", flush=True)
    print(f"\n{len(chosen)} mutants: {', '.join(f'{count} {result}' for result, count in results.items())}")
    return 1 if results["SURVIVED"] or results["NOT PLACED"] else 0


def copy_tracked_files(copy: Path) -> None:
    """Copy the files that git knows."""
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)


def judge(mutant: dict, copy: Path, check: bool) -> str:
    """Return whether the tests noticed the fault, and which test did."""
    path = copy / mutant["file"]
    text = path.read_text() if path.is_file() else ""
    if text.count(mutant["old"]) != 1:
        return "NOT PLACED: the text must occur exactly once"
    if check:
        return "placed"
    path.write_text(text.replace(mutant["old"], mutant["new"]))
    try:
        return run_tests([mutant["file"], *mutant["tests"]], copy)
    finally:
        path.write_text(text)


def run_tests(tests: list[str], copy: Path) -> str:
    """Run the doctests of the file and the tests until one fails."""
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
