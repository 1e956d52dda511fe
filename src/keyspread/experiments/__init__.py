"""The paper's analysis and simulation, made anew: one file a figure, `reproduce.py` makes them.

parameters → runs (simulated on Spark, `evaluation/sweep.py`) → table → plot → verdicts → report (`report/page.py`)
"""
