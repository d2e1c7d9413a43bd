"""What the endpoints beside /responses make of a message; loaded for their models alone. Pure.

    message  what the newest message asks for, and what its requests and their bills have in common
    video    the request of a video, what it costs, and its job
    speech   requests of speech and of transcripts, what they cost, and how they are played or written
    images   the request of pictures, what they cost, and what is read of them

The turn is in `turn/creation`, the requests are in `openrouter/creation`.
"""
