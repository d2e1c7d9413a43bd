"""The command line that shows what an exported chat becomes, and what was recorded.

    __main__     options, files and exit codes; a replayed chat and its plan as text and as JSON
    exports      chats that Open WebUI exported, and the messages and the input at one point of them
    recordings   the exchanges of a recording, and what a reader makes of their answers
    conformance  the input judged by the official SDK

It sends nothing and needs neither Open WebUI nor a network.
"""
