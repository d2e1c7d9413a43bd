"""Benchmarks: each module has a NAME and a `run() -> dict` of figures."""
