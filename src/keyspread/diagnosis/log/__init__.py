"""Read an event log: from files to stages with their tasks, and queries with their plans."""
