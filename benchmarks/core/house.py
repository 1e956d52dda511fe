"""The size and shape of the house: lines, files, folders that import each other, the path of one planned spread.

./dev bench house [FOLDER]: of this checkout, or of another one, to compare two commits.
"""

import ast
import os
import re
import subprocess
import sys
import sysconfig
from collections import defaultdict
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parents[2]
PATH_OF_A_ROW = """
import sys
from pathlib import Path
import keyspread
from keyspread.spark import session, spread
rows = session(master="local[1]").range(1000).selectExpr("id % 7 AS k", "id")
spread(rows, "k", 50)  # what is imported on the way has been imported now
home, passed, functions = str(Path(keyspread.__file__).parent), set(), 0

def note(frame, event, argument):
    global functions
    if event == "call" and frame.f_code.co_filename.startswith(home) and frame.f_code.co_name != "<module>":
        passed.add(frame.f_code.co_filename)
        functions += 1

sys.setprofile(note)
spread(rows, "k", 50)
sys.setprofile(None)
print(len(passed), "files,", functions, "calls:", *sorted(str(Path(name).relative_to(home)) for name in passed))
"""


def main(root: Path) -> None:
    """Print every number in a line of its own."""
    source, tests = _python_files(root, "src"), _python_files(root, "tests")
    sizes = [_lines(path) for path in source]
    print(f"lines in src             {sum(sizes):,}")
    print(f"files in src             {len(sizes)} (median {median(sizes):.0f} lines)")
    print(f"lines in tests           {sum(map(_lines, tests)):,}")
    both_ways = mutual_imports(root / "src")
    print(f"folders importing each other  {len(both_ways)}", *(f"\n  {a} and {b}" for a, b in both_ways))
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "PATH": _scripts() + os.environ.get("PATH", "")}
    options = subprocess.run(
        [sys.executable, "-m", "keyspread", "run", "--help"], env=environment, capture_output=True, text=True
    ).stdout
    names = set(re.findall(r"^\W*(--[\w-]+)", options, re.MULTILINE)) - {"--help"}
    print(f"options of keyspread run {len(names)}")
    spread = subprocess.run([sys.executable, "-c", PATH_OF_A_ROW], env=environment, capture_output=True, text=True)
    print(f"one planned spread       {spread.stdout.strip() or spread.stderr.strip()[-300:]}")


def _python_files(root: Path, folder: str) -> list[Path]:
    names = subprocess.run(["git", "ls-files", f"{folder}/*.py"], cwd=root, capture_output=True, text=True, check=True)
    return [root / name for name in names.stdout.splitlines() if (root / name).is_file()]


def _lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def _scripts() -> str:
    return sysconfig.get_path("scripts") + os.pathsep


def mutual_imports(source: Path) -> list[tuple[str, str]]:
    """Return the pairs of folders of which each imports from the other, a folder and one inside it included.

    The `__init__.py` of a package that only re-exports (docstring, imports, `__all__`, `__version__`, `__dir__`) does
    not count as importing: it passes names on, and no code of the folder uses them. An import of the package itself
    still counts as an import of its folder.
    """
    folders = {}  # module -> its folder
    for path in source.rglob("*.py"):
        parts = path.relative_to(source).with_suffix("").parts
        inside = ".".join(parts[:-1])
        folders[inside if parts[-1] == "__init__" else ".".join(parts)] = inside
    imports = defaultdict(set)
    for path in source.rglob("*.py"):
        folder = ".".join(path.relative_to(source).parts[:-1])
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if path.name == "__init__.py" and all(map(_re_exports, tree.body)):
            continue
        for node in ast.walk(tree):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [f"{node.module}.{alias.name}" for alias in node.names] if modules else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            known = [module for module in modules if module in folders]
            # `from package import module` reads the module; only `from package import name` reads the package itself.
            imports[folder] |= {folders[module] for module in (known[1:] if len(known) > 1 else known)}
    return sorted((a, b) for a in imports for b in imports[a] if a < b and a in imports[b])


def _re_exports(statement: ast.stmt) -> bool:
    """Return whether a statement of an `__init__.py` only passes names on: it may say so, but it computes nothing."""
    if isinstance(statement, ast.Assign):
        return all(
            isinstance(target, ast.Name) and target.id in ("__all__", "__version__") for target in statement.targets
        )
    if isinstance(statement, ast.FunctionDef):
        return statement.name == "__dir__"
    documents = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return documents or isinstance(statement, ast.Import | ast.ImportFrom)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE)
