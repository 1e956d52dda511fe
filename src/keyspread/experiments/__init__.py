"""Reproduce the paper's figures and claims: one file per figure, in `figures/` and `claims/`.

parameters → runs (simulated on Spark by `evaluation/sweep.py`) → table → plot → verdicts → report (`report/page.py`)

`reproduce.py` lists all figures and takes them through these steps.
"""
