"""Aggregates in parts: partial states per worker, merged by key."""
