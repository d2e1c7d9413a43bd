"""All knowledge of Open WebUI, and the only folder that imports it, when a part of it is needed.

    call         what the host passes to a pipe, parsed once
    native       outputs as the Responses events that a web page or a channel draws, and as the host stores them
    tagged_code  code that a model writes between tags for the host to run
    tool_runs    tools of the host: those that run here, by its own functions, and those that their user stops
    chunks       outputs for callers without a web page
    files        the host's file storage
    documents    which files are attached to which messages, and the host's excerpts of them removed
    model_rows   the rows of the offered models: what they say, who may use them, their icons
    platform     what the host shares: database, Redis, secret, cache folder, functions and their code, a user's valves
    lookups      what the host's tables say of users, groups and chats
    switches     what an administrator may have installed beside the message field, and which models have it
    wording      how a user reads lines: in which language, questions on the page, spoken answers, titles of chats

Decides nothing about the content of an answer.
"""
