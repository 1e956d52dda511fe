"""Joins whose hot keys are cut: count both sides, plan, salt the rows, let Spark join."""
