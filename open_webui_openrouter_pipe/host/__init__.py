"""All knowledge of Open WebUI, and the only folder that imports it, when a part of it is needed.

    call        what the host passes to a pipe, parsed once
    native      outputs as the Responses events that a web page draws
    channels    the same for a channel, which shows text alone
    tagged_code  code that a model writes between tags for the host to run
    items       the items and the usage that the host stores
    chunks      outputs for callers without a web page
    files       the host's file storage
    documents   which files are attached to which messages, and the messages with files as parts
    excerpts    the host's excerpts of files, removed from its messages
    records     the host's tables of users, chats and messages
    groups      which groups a user is in
    saving      whether the host is saving valves, and an error that its dialog shows
    marker_origins  whose a marker in a chat is
    quoted_calls    which calls in a text its model wrote as text
    own_valves  a user's valves as the host stores them, and where it could not read them
    wording     in which language a user reads lines, and which of them
    questions   questions to the user on the page
    model_rows  what administrators have set for a model
    voice       the instructions for spoken answers, out of the system prompt
    templates   whether anybody has edited the texts of a system prompt
    model_info  what a model's row says of it, and which of that is ours to write
    model_sync  the rows of the offered models, and who may use them
    icons       the icons of models
    context_page   the answer to `/context` as a page: a report as HTML
    context_style  how that page looks, and its script
    pauses      how long users pause in a chat
    platform    what the host shares: database, Redis, secret, cache folder

Decides nothing about the content of an answer.
"""
