"""The paper's Q4, throughput and latency on a running engine: what is measured, and what was predicted.

No engine here: `keyspread.deployment.deploy` measures.
"""
