"""Results for a terminal: one table a file, each from a value to something that rich prints.

What shows one of them imports its file: all together they need most rooms, and half a second.
"""
