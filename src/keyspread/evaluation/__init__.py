"""Evaluate schemes without an engine: simulate, compare, model queues; sweeps run many simulations on Spark."""
