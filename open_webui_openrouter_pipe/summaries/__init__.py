"""What replaces old turns: segments, the summary, its prompt. Pure.

    segments    which runs of turns summaries may replace, and which are missing
    summary     the summary as a value: its JSON form, its rendering, reading it from an answer
    prompt      what a summary model is asked, and turns as text
    completion  what is added to a model's words, and which answers are refused

Neither reads nor sends anything.
"""
