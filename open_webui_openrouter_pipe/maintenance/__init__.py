"""A function of its own for administrators: it moves chats to ours, removes, records and updates.

    pipe         what Open WebUI loads: reads a command, and writes the report
    commands     the commands that can be written, ids under another function, and what a report says  (pure)
    cleaning     messages without our markers                                                          (pure)
    host_tables  the host's tables, read and written in pages
    moving       chats, presets, grants and settings under other model ids
    removal      tables, markers, rows, files and Redis keys that are ours
    releases     what a release says of itself, and whether it is signed  (pure)
    updates      a newer release, fetched and installed, and the way back

It is built into a file of its own, and shares nothing with the pipe but the file by which a recording runs. Nothing is
changed before a report has said what would be; the report is made by the same code, which then writes nothing.
"""
