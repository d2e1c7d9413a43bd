"""Benchmarks: modules with `BENCHMARKS`, functions that measure and return figures, by name; others begin with `_`."""
