"""Readers: one format a file, each `read(source) -> Trace`."""
