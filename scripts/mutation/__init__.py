"""What `scripts/mutate` is made of: the mutants of a source, which tests reach a line, and how a mutant is tried."""
