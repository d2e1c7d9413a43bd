"""The adapter to OpenRouter, and the only folder that speaks HTTP with it.

    client      sends requests, reads streams, tries again
    body        a body as JSON, in pieces that hold up nobody
    request     the host's parameters as the body of POST /responses
    composer    the port `Requests`: parameters read once, joined with each input
    policy      what chats, tasks and summaries request, and what a plan knows of the models
    catalog     the list of models
    errors      failures as errors with a line for the user

Knows neither Open WebUI nor a database.
"""
