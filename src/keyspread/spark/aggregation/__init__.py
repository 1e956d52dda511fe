"""Aggregates in parts: each worker computes partial states per key, which are merged by key."""
