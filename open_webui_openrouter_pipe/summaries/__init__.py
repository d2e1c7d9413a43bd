"""What replaces old turns: segments, the summary, its prompt, and its grounding in the source.

    completion  what is added to a model's words, and what is omitted for length
    dates       how dates and times are written, and what they mean
    details     exact details of a text, and whether a source supports them
    judge       whether an answer has content, and is about its source
    prompt      what a summary model is asked, and turns as text
    quantities  numbers as words, and quantities in other units
    references  the messages that a summary's entries refer to, word for word
    segments    which runs of turns summaries may replace, and which are missing
    summary     the summary as a value: its JSON form, its rendering, reading it from an answer
    tool_lines  tool calls that say nearly the same as one line

Pure: neither reads nor sends anything.
"""
