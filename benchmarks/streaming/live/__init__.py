"""Queries in Spark's real-time mode on a real Kafka broker, both on this machine, for the benchmarks."""

import sys
from pathlib import Path

# The broker belongs to the tests; it needs nothing but Java and Maven Central.
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "spark" / "kafka"))
