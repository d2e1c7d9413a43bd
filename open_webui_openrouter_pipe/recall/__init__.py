"""Finding again what was said: a conversation's passages, searched by words. Pure.

    words     the terms of a text, in any script
    search    passages of a few lines, their index, and those that fit a query, best first
    tool      what is shown of them behind a question, and the tool by which a model looks up what it lacks

Knows nothing of windows or plans.
"""
