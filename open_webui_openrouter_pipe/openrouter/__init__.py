"""The adapter to OpenRouter, and the only folder that speaks HTTP with it.

    client       sends requests, reads streams
    connections  the client of a worker, when its streams are read, and what is down
    transport    HTTP over the event loop's sockets, read by time
    wire         a body as JSON, in pieces that hold up nobody
    fields       the host's parameters as the body of POST /responses
    request      the port `Requests`: parameters read once, joined with each input; cache breakpoints, pseudonyms
    controls     what administrators and users have switched, in the parameters of a call
    tasks        how little is thought for the host's tasks
    server_tools  the tools that OpenRouter runs, its web search among them, in a request
    errors       failures as errors with a line for the user
    retries      asks again before the first output, and changes what was refused
    recordings   whether exchanges are recorded, and in which folder
    recorder     writes them down as they come, beside the answers
    placeholders  what stands there in the place of texts, names and files
    catalog      the last good answers, kept on disk, and the reading of models and keys
    creation     requests to the endpoints that make something by the piece
    problems     what is wrong with the value of a valve, and what was probably meant
    offer        which models are offered: filters, variants, order, names; which one to take
    listing      the models of one base URL and key, what of them is offered, and why none are

Knows neither Open WebUI nor a database.
"""
