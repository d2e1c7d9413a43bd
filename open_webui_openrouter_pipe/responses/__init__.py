"""The Responses vocabulary, pure: from the bytes of an answer to the effects that it has.

    items     the typed elements of `input[]` and `output[]`, and their type guards
    sse       bytes in any portions -> the data of whole frames
    effects   a frame -> an event; the effects and the usage of a stream as values
    reducer   events -> effects: the table of what each type of event means
    drafts    output items under construction, and which of them an event means
    inline    base64 and data URLs in the place of a file
    pictures  pictures that models draw: their items, forms and kinds
    references  paths of the host's files in the place of their content
    failure   an error body in any of its shapes -> a failure
    text      half surrogates and NUL, mended in a text or throughout a JSON value
    wire      coercers for values off the wire, and function names as providers accept them

Knows neither HTTP nor the host; nothing here waits, logs or reads the clock.
"""
