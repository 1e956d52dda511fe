"""Generated streams: Zipf, drifting Zipf, look-alikes of the paper's streams."""
