"""The Responses vocabulary, pure: from the bytes of an answer to the effects that it has.

    values    values off the wire: coercers, mended text, base64 and references in the place of a file
    tools     the tools that OpenRouter runs
    items     the typed elements of `input[]` and `output[]`, their type guards, and the pictures in them
    effects   bytes in any portions -> frames -> events; the effects and the usage of a stream as values
    drafts    output items under construction, and which of them an event means
    reducer   events -> effects: the table of what each type of event means
    failure   an error body in any of its shapes -> a failure

Knows neither HTTP nor the host; nothing here waits, logs or reads the clock.
"""
