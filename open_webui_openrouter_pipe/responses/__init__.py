"""The Responses vocabulary, pure: items, bytes to frames to events, and the reducer from events to effects.

Knows neither HTTP nor the host; nothing here waits, logs or asks for the time.
"""
