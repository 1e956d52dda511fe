"""The benchmark on a running engine (the paper's Q4): throughput and latency, measured and predicted.

Setups, predictions and stored measurements need no engine; `keyspread.deployment.deploy` measures on Spark.
"""
