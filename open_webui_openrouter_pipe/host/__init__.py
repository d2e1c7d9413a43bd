"""All knowledge of Open WebUI: what it hands to a pipe, what it expects back, where it keeps things.

The only folder that may import `open_webui`, and it does so when a thing is needed, not at import time.
"""
