"""Fitting a conversation into a model's window: detail levels, policies, simulation, plan, audit. Pure."""
