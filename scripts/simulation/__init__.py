"""A year of use in one process: the app under a virtual clock and one seed, with faults, judged by laws.

`python -m scripts.simulation --seed 1 --years 1` runs one; `story` says what a run is made of, `world` runs it.
"""
