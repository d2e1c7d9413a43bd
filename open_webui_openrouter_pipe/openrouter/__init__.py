"""The adapter to OpenRouter, and the only folder that speaks HTTP with it.

    client       sends requests, reads streams
    connections  one for each running request, those that are free, and addresses that cannot be reached
    wire         a body as JSON, in pieces that hold up nobody
    fields       the host's parameters as the body of POST /responses
    request      the port `Requests`: parameters read once, joined with each input; cache breakpoints, pseudonyms
    controls     what administrators and users have switched, in the parameters of a call
    search       web search by OpenRouter's server tools
    errors       failures as errors with a line for the user
    retries      asks again before the first output, and changes what was refused
    catalog      the lists of models, the reading of their rows, and the last good answers
    offer        which models are offered: filters, variants, order, names
    listing      all that Open WebUI lists for one base URL and key, and why it is empty

Knows neither Open WebUI nor a database.
"""
