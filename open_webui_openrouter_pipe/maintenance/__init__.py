"""For administrators: moves chats to our function, installs shortcuts, updates, removes what it leaves, and records.

    pipe         what Open WebUI loads: reads a command, and writes the report
    commands     the commands that can be written, ids under another function, and what a report says  (pure)
    host_tables  the host's tables, read and written in pages
    moving       chats, presets, grants and settings under other model ids
    shortcuts    switches beside the message field, and commands in the page's list of `/`
    removal      tables, marks in messages, rows, files and Redis keys that are ours
    updates      releases and their signatures; a newer one, fetched and installed, and the way back

It is built into a file of its own, and shares nothing with the pipe but the file by which a recording runs, and what
filters note in a call's body. Nothing is changed before a report has said what would be; the report is made by the same
code, which then writes nothing.
"""
