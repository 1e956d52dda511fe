"""Compiled twins of the rules: arrays in, arrays out, never an exception.

Each file has one role and each kernel an oracle in plain Python in `tests/naive.py`:

    mixing    64 bits -> 64 well-mixed bits -> a worker
    summary   SpaceSaving: counters, the table that finds them, the queue that finds the least
    balance   loads of the workers, and the least loaded of any set of them
    routing   the loops over messages, one a family of schemes
    choices   the search for d
    planned_routing   routing by a plan

State is kept in named tuples of arrays, so that a kernel takes two or three arguments that explain themselves.
"""
