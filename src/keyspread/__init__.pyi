"""The public names, for type checkers; `__init__.py` loads them when they are used."""

from keyspread.choices import find_choices as find_choices
from keyspread.errors import InputError as InputError
from keyspread.errors import KeyspreadError as KeyspreadError
from keyspread.evaluation.compare import compare as compare
from keyspread.evaluation.simulate import simulate as simulate
from keyspread.hashing import hash_keys as hash_keys
from keyspread.heavy_hitters import SpaceSaving as SpaceSaving
from keyspread.operators import ColumnOperator as ColumnOperator
from keyspread.operators import Operator as Operator
from keyspread.planned.plan import Plan as Plan
from keyspread.planned.planner import plan as plan
from keyspread.sender.registry import SCHEMES as SCHEMES
from keyspread.sender.sender import Sender as Sender
from keyspread.sender.settings import Settings as Settings

__version__: str
__all__: list[str]
