"""Run the compatibility tests on several versions of Spark, and write the table of what works where.

python matrix.py [VERSION ...] (default: all): on each version the tests of this folder on classic Spark and over
Connect, then the slow ones, which kill an executor behind a shuffle and install the wheel into a new environment.
"lowest" is the lowest version of each package that pyproject.toml allows, "python3.12" another Python, which must be
on the PATH. The quick tests of the whole project run on them, and those of this folder on classic Spark.

The table in docs/versions.md is written from the results in `.matrix`, those of the last run on each version, once
there are results of every version.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from environments import CONNECT_SERVERS, FOLDER, LOWEST, PYTHONS, ROOT, SPARKS, python_of

PAGE = ROOT / "docs" / "versions.md"
BEGIN, END = "<!-- the table: ./dev matrix writes it -->\n", "<!-- end of the table -->\n"
HERE = "tests/compatibility"
Steps = dict[str, tuple[list[str], dict[str, str]]]
CLASSIC: Steps = {"classic": ([HERE], {})}
STEPS: Steps = {
    **CLASSIC,
    "Connect": ([HERE], {"KEYSPREAD_TEST_REMOTE": "local[2]"}),
    "killed executor, Kafka, wheel": ([HERE, "--slow"], {}),
}
QUICK: Steps = {"quick tests": (["--quick", "tests", "src"], {})}
MARKS = {"failed": "FAILS", "skipped": ""}


def main(arguments: list[str]) -> int:
    """Run the versions and return 1 if a test failed."""
    versions = arguments or list(SPARKS)
    for version in versions:
        if version not in (*SPARKS, *PYTHONS, LOWEST):
            known = ", ".join([*SPARKS, *PYTHONS])
            print(f"./dev: no version {version!r}; matrix takes {known} and {LOWEST}", file=sys.stderr)
            return 2
    failed = [f"{version} {step}" for version in versions for step in _failed_steps(version)]
    missing = [version for version in SPARKS if not _results(version).is_file()]
    if missing:
        print(f"docs/versions.md stays as it is: no results of {', '.join(missing)} yet", file=sys.stderr)
    else:
        write_table()
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _failed_steps(version: str) -> list[str]:
    python, results = python_of(version), _results(version)
    results.unlink(missing_ok=True)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    failed = []
    for step, (arguments, settings) in _steps(version).items():
        print(f"\n== {version}, {step}", flush=True)
        begin = time.monotonic()
        pytest = [python, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        environment = {**inherited, **settings, "KEYSPREAD_WORKS": str(results)}
        if step == "Connect" and version in CONNECT_SERVERS:
            environment["PYSPARK_SUBMIT_ARGS"] = f"--packages {CONNECT_SERVERS[version]} pyspark-shell"
        if subprocess.run(pytest, cwd=ROOT, env=environment).returncode:
            failed.append(step)
        print(f"== {time.monotonic() - begin:.0f} s", flush=True)
    return failed


def _steps(version: str) -> Steps:
    return STEPS if version in SPARKS else {**QUICK, **CLASSIC}


def _results(version: str) -> Path:
    FOLDER.mkdir(exist_ok=True)
    return FOLDER / f"works-{version}.jsonl"


def write_table() -> None:
    """Write the table into the page."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")


def table() -> str:
    """Return the table of what works where, in Markdown: a row per feature, a column per version."""
    found: dict[str, dict[str, dict[bool, set[str]]]] = {}
    for version in SPARKS:
        file = _results(version)
        for line in map(json.loads, file.read_text().splitlines() if file.is_file() else []):
            cells = found.setdefault(line["feature"], {}).setdefault(version, {})
            cells.setdefault(line["connect"], set()).add(line["found"])
    rows = [["", *SPARKS], ["---"] * (len(SPARKS) + 1)]
    for feature, versions in found.items():
        rows.append([feature, *(_cell(versions.get(version, {})) for version in SPARKS)])
    return "\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows) + "\n"


def _cell(found: dict[bool, set[str]]) -> str:
    classic, connect = (_word(found.get(kind, set())) for kind in (False, True))
    return classic or "–" if connect in ("", classic) else f"{classic}; Connect: {connect}"


def _word(found: set[str]) -> str:
    """Return one word for all tests of a feature: the worst."""
    others = sorted(found - {"yes"}, key=lambda one: one != "failed")
    return MARKS.get(others[0], others[0]) if others else "yes" if found else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
