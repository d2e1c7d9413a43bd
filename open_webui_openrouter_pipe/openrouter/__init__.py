"""The adapter to OpenRouter, and the only folder that speaks HTTP with it.

    client          sends requests, reads streams, tries again
    connections     one for each running request, and those that are free
    body            a body as JSON, in pieces that hold up nobody
    request         the host's parameters as the body of POST /responses
    composer        the port `Requests`: parameters read once, joined with each input
    policy          what chats, tasks and summaries request, and what a plan knows of the models
    controls        what administrators and users have switched, in the parameters of a call
    routing         which providers and models may answer
    search          web search by OpenRouter's server tools
    cache_lifetime  how long Anthropic's cache keeps a chat
    identity        pseudonyms of users, chats and messages
    own_key         the port `Responses` for a user's own API key
    catalog         the list of models
    errors          failures as errors with a line for the user

Knows neither Open WebUI nor a database.
"""
