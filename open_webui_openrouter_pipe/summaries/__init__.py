"""What stands in for old turns: segments, the summary, its prompt and its checking against the source. Pure."""
