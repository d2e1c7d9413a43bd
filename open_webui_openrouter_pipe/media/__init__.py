"""Attachments: which are sent and how, what files are, and where they may come from.

    choice    which attachments are sent, in which form, and what stands for the others  (pure)
    library   the port `Fill`: references read, encoded and put in place
    download  files fetched from addresses that users and models name, and which may be reached
    memory    the budget of bytes for files in memory, and what is kept in it
    kinds     the media type of a file by its content, and whether it can be opened      (pure)

Knows neither Open WebUI nor OpenRouter nor a database.
"""
