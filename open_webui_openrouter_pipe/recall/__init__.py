"""Finding again what was said: a conversation's passages, searched by words. Pure.

    words     the terms of a text, in any script
    search    passages of a few lines, their index, and those that fit a query, best first
    excerpts  which of them are shown behind a question, and the message that quotes them
    tool      the tool by which a model looks up what it lacks: its definition, its calls, its answers

Knows nothing of windows or plans.
"""
