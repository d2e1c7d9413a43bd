"""Runs Open WebUI with the pipe in it: for people (scripts/start) and for tests (scripts/harness/openwebui.py)."""
