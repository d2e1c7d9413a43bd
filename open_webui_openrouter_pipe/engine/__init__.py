"""One request's journey, over the ports: read, rehydrate, build, dispatch, persist, hand on.

Knows neither the host nor HTTP nor a database; waits only on the ports.
"""
