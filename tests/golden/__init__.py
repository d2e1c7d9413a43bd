"""Golden bytes: what leaves the pipe, what it stores and what it counts, held by digests while modules move.

Each `*.txt` has one line a case: its name, and the SHA-256 of its text. `python -m tests.golden` rewrites them.
"""
