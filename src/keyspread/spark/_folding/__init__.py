"""Operators on Spark: rows become states where they are, states move and are merged."""
