"""Every text that a person reads: one line a message, one file a language. Pure.

    lines   a line by its name, filled with its values, in the reader's language

The lines of a language are in its file, the texts of settings in `valves.txt`.
"""
