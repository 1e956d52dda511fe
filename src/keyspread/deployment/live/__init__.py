"""Figures 13 and 14 live: queries in Spark's real-time mode between two topics of a real Kafka broker.

`topics.py` has the topics, `latency.py` measures one scheme at rising rates, `bench.py` all of them.
"""
