"""What replaces old turns: segments, the summary, its prompt, and its grounding in the source.

    completion  what is added to a model's words, and what is omitted for length
    details     exact details of a text, and whether a source supports them
    prompt      what a summary model is asked, and turns as text
    segments    which runs of turns summaries may replace, and which are missing
    summary     the summary as a value: its JSON form, its rendering, reading it from an answer

Pure: neither reads nor sends anything.
"""
