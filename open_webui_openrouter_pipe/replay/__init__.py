"""The command line that shows what an exported chat becomes.

    __main__       options, files and exit codes
    transform      messages to input in one call, for tests of others
    exports        chats that Open WebUI exported, and the messages at one point of them
    report         a replayed chat and its plan as text and as JSON
    conformance    the input judged by the official SDK

It sends nothing and needs neither Open WebUI nor a network.
"""
