"""Evaluation of schemes without an engine: simulate, compare, model queues. Sweeps run many simulations on Spark."""
