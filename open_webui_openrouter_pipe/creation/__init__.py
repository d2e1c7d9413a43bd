"""What the endpoints beside /responses make of a message; loaded for their models alone. Pure.

    message  what the newest message asks for: its text, pictures and recordings
    video    the request of a video, what it costs, and its job

The turn is in `turn/creation`, the requests are in `openrouter/creation`.
"""
