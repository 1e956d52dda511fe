"""Read real streams from files: find them, tell their format, parse messages."""
