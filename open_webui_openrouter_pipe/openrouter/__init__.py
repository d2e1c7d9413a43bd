"""The adapter to OpenRouter, and the only folder that speaks HTTP with it.

    client          sends requests, reads streams
    retries         asks again before the first output, and changes what was refused
    breaker         leaves an address alone that cannot be reached
    connections     one for each running request, and those that are free
    body            a body as JSON, in pieces that hold up nobody
    request         the host's parameters as the body of POST /responses
    tool_order      the same tools as the same bytes                                   pure
    composer        the port `Requests`: parameters read once, joined with each input
    policy          what chats, tasks and summaries request, and what a plan knows of the models
    controls        what administrators and users have switched, in the parameters of a call
    routing         which providers and models may answer
    search          web search by OpenRouter's server tools
    cache_lifetime  how long Anthropic's cache keeps a chat
    identity        pseudonyms of users, chats and messages
    own_key         the port `Responses` for a user's own API key
    catalog         the lists of models, and the reading of their rows
    last_good       the last good answer to a GET, in memory and on disk
    offer           which models are offered: filters, variants, order, names          pure
    account         what OpenRouter says of a key                                      pure
    status          what stands in the list when something is wrong, and its answers   pure
    listing         all that Open WebUI lists for one base URL and key
    errors          failures as errors with a line for the user

Knows neither Open WebUI nor a database.
"""
