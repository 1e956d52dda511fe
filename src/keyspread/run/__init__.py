"""What `keyspread run` does: a measurement three ways, or the paper's pipeline."""
