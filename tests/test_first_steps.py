"""A stranger's path from a clean clone: README's commands, the blocks of README and tutorial, the notebook, the site.

Everything runs with what `./dev` installs into the clone, so this needs the package index or pip's cache.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="not a clone of the repository"),
]
SAME = """
found = [{row["customer"]: row["score"] for row in result.collect()} for result in (before, after)]
assert found[0].keys() == found[1].keys() and len(found[0]) > 1
assert all(abs(found[0][customer] - found[1][customer]) < 1e-9 for customer in found[0])
"""


def dev(clone, *arguments, cwd=None):
    """Run `./dev` of the clone, as a stranger with a fresh shell would."""
    ours = ("SPARK_", "PYSPARK_", "PYTEST", "PYTHON", "VIRTUAL_ENV", "KEYSPREAD")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        [clone / "dev", *map(str, arguments)],
        cwd=cwd or clone,
        env={**inherited, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=900,
    )


def out_of(clone, *arguments, cwd=None):
    done = dev(clone, *arguments, cwd=cwd)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """Return a clean clone of the last commit, with everything installed by its own `./dev`."""
    folder = tmp_path_factory.mktemp("stranger") / "keyspread"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", REPOSITORY, folder], check=True)
    done = dev(folder, "python", "-c", "import keyspread; print(keyspread.__file__)")
    if "cannot install requirements.lock" in done.stderr:
        pytest.skip("the package index does not answer, and nothing is in pip's cache")
    assert done.stdout.startswith(str(folder)), done.stderr
    return folder


def python_blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def commands(page):
    """Return the lines of code blocks that call our programs, without comments."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    plain = [text for language, text in blocks if not language]
    lines = [re.split(r"\s{2,}#", line)[0].strip() for block in plain for line in block.splitlines()]
    return [line for line in lines if line.startswith("./dev")]


def test_the_commands_of_the_readme(clone):
    """`./dev run` and `./dev test`; smaller than by default, because both run whole elsewhere."""
    assert commands(clone / "README.md") == ["./dev run", "./dev test"]
    found = json.loads(out_of(clone, "run", "--messages", "4e3", "--json"))
    assert (found["rows"], found["same_answer"], found["workers"]) == (4000, True, 16)
    assert set(found["ways"]) == {"plain groupBy", "salting by hand", "keyspread"}
    assert " passed" in out_of(clone, "test", "tests/test_hashing.py")


def test_before_and_after_of_the_readme(clone, tmp_path):
    """The complete example, as one program: the same result both ways."""
    program = tmp_path / "example.py"
    program.write_text("\n\n".join(python_blocks(clone / "README.md")[:3]) + SAME)
    out_of(clone, "python", program, cwd=tmp_path)


def test_the_blocks_of_the_tutorial(clone, tmp_path):
    """All blocks as one program, with no other names than those that the page defines."""
    program = tmp_path / "tutorial.py"
    program.write_text("\n\n".join(python_blocks(clone / "docs" / "tutorial.md")))
    out = out_of(clone, "python", program, cwd=tmp_path)
    assert "Plan for 4 workers" in out
    assert "Stream over 4 workers" in out


def test_the_notebook(clone):
    assert "1 passed" in out_of(clone, "test", "--slow", "tests/test_notebook.py")


def test_the_site(clone):
    out_of(clone, "docs")
    site = clone / "build" / "docs"
    assert "tutorial.html" in (site / "index.html").read_text(encoding="utf-8")
    for page in ("generated/commands.html", "generated/error-messages.html", "api.html"):
        assert (site / page).exists()
