"""Throughput and latency of every scheme on a running engine, measured and predicted."""
