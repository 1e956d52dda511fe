"""Claims that the paper makes in its text, one file each."""
