"""What a request consists of, as values, and what it counts: turns, tokens, media, budget, calibration. Pure.

    conversation  the Conversation: instructions, turns of rounds of items, tools; content and chain digests
    tokens        token counts of items and tools, cached by content; long texts truncated to a count
    estimate      the token count of a text without a tokenizer
    media         token counts of images, documents, audio and video by each vendor's rule
    budget        the split of a context window, its calibration by bills, and the refusal of a request
    facts         tool results stated as facts
    masking       secrets that nobody shows, and those masked in known forms
    record        the user's messages word for word in their frames, and which words are their own
    slash         the commands that users type as messages, as values

Decides nothing about what is sent.
"""
