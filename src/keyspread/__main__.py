"""`python -m keyspread` is the command `keyspread`."""

import sys

from keyspread.cli import main

if __name__ == "__main__":
    sys.exit(main())
