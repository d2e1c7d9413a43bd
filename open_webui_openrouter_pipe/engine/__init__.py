"""The journey of one request, over the ports alone: read, load, build, fit, send, store, hand on.

    turn             one request of the host, from its messages to the end of the answer
    round            one request to OpenRouter and its stream: calls fit for the host, markers after their artifacts
    own_tools        calls of our own tools: kept from the host, answered here
    recorder         the artifacts of a round: what is kept, made durable before its marker is shown
    search_status    status lines while a model searches the web
    commands         commands that users type as messages, answered without a model
    pictures         what models draw, stored among the host's files before it is shown
    admission        how many requests run at once, and who is next
    failures         what a user reads when a turn fails, and the log's line that belongs to it
    channel          the bounded queue between the engine's task and whoever drains it
    prompt_keeper    the system prompt of a chat, kept as its first request had it
    fit              a chat fitted into the model's window: planned, summarized, reported, recorded
    spending         what a call costs: limits, questions, bills, and the line about it
    prefix_watch     how requests began, and the log of what changes that
    ceiling          the most that a request may cost
    summarizer       the summaries that a plan requires, made once and shared
    summary_writer   one summary, requested from a model and checked

Knows neither the host nor HTTP nor a database; waits only on the ports.
"""
