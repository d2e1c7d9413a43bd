"""One turn over the ports: read, load, build, fit, send, store, hand on.

    runner       one call of the host, from its messages to the end of the answer
    round        one request to OpenRouter and its stream: markers after their artifacts
    own_tools    calls that are answered here: of our own tools, kept from the host, and of its tools, side by side
    remedies     what is tried when a request is refused
    recorder     the items of a round: calls fit for the host, artifacts and pictures durable before shown
    fit          a chat fitted into the model's window: planned, summarized, reported, recorded
    summaries    the summaries that a plan requires: requested, checked, made once and shared
    commands     commands that users type as messages, answered without a model; what `/spending` reads
    creation     one call of the host that is answered by what an endpoint makes: speech, a transcript, pictures
    video        videos: a job, followed to its end
    admission    how many requests run at once, and who is next
    channel      the bounded queue between the turn's task and whoever drains it
    bill         what a call costs: limits, questions, bills, and the line about it
    late_bills   bills that did not come with their answers, asked for later
    memory       how the last requests began, and the log of what changes that

Knows neither the host nor HTTP nor a database; waits only on the ports.
"""
