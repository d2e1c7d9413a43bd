"""What a request is made of, as values, and what it counts: turns, tokens, media, budget, calibration. Pure."""
