"""What a request consists of, as values, and what it counts: turns, tokens, media, budget, calibration. Pure.

    conversation     the Conversation: instructions, turns of rounds of items, tools; content and chain digests
    tokens           token counts of items and tools, cached by content; long texts truncated to a count
    estimate         the token count of a text without a tokenizer
    media            token counts of images, documents, audio and video by each vendor's rule
    pdf_pages        the number of a PDF's pages
    calibration      a model's billed tokens per counted token, learned from its bills
    budget           the split of a context window, the settings of context management, and the refusal of a request
    tool_facts       tool results stated as facts
    excerpts         items that are too long: head and tail of their text
    references       short names of items, by which a model asks for the whole of what was shortened
    masking          secrets masked, by the names of their fields and in known forms
    own_words        which words of a message are the user's own, and which are quoted or pasted
    commands         the commands that users type as messages, as values
    user_record      the user's messages word for word in their frames, and the note for omitted turns
    content_cache    a bounded cache of what follows from content

Decides nothing about what is sent.
"""
