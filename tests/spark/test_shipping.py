"""A function that travels to an executor: it runs there, or says in one line that keyspread is missing."""

import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

from pyspark import cloudpickle

from keyspread.spark._engine.capabilities import shipped

# An interpreter without keyspread that reads the function as PySpark does.
EXECUTOR = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "keyspread":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

if sys.argv[1] == "without":
    import importlib.util
    real = importlib.util.find_spec
    importlib.util.find_spec = lambda name, package=None: None if name == "keyspread" else real(name, package)
    sys.meta_path.insert(0, Missing())
from pyspark import cloudpickle
print(cloudpickle.loads(sys.stdin.buffer.read())([1, 2]))
"""


def on_executor(function, keyspread):
    packed = cloudpickle.dumps(function)
    return subprocess.run([sys.executable, "-c", EXECUTOR, keyspread], input=packed, capture_output=True)


def doubled(batches):
    from keyspread import hash_keys

    return [2 * batch for batch in batches if hash_keys is not None]


def test_it_runs_where_keyspread_is():
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    done = on_executor(shipped(doubled), "with")
    assert done.stdout.split() == [b"[2,", b"4]"], done.stderr


def test_it_says_what_to_do_where_keyspread_is_not():
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    done = on_executor(shipped(doubled), "without")
    assert done.returncode != 0
    last = done.stderr.decode().strip().splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: keyspread is not installed on this executor: install it there")
