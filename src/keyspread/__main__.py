"""`python -m keyspread` is the command `keyspread`."""

import sys
from importlib import import_module

if __name__ == "__main__":
    sys.exit(import_module("keyspread.cli").main())
