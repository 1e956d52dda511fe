"""Aggregates and listeners of streaming queries: windows, state, running totals."""
