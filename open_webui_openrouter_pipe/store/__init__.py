"""Artifacts: sealed, durable, owned. Databases, the cache in Redis, the sweep; `build` composes the layers."""
