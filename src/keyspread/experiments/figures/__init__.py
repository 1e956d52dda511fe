"""One file per figure of the paper."""
