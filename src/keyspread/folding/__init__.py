"""What executors do with an operator: rows become states, states are merged and finished. No engine."""
