"""The command line that shows what an exported chat becomes.

    __main__     options, files and exit codes; a replayed chat and its plan as text and as JSON
    exports      chats that Open WebUI exported, and the messages and the input at one point of them
    conformance  the input judged by the official SDK

It sends nothing and needs neither Open WebUI nor a network.
"""
