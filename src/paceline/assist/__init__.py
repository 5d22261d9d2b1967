"""Paceline for assistants: questions as tools with typed answers, over the Model Context Protocol.

`answers` asks, `server` offers what it asks as tools. Nothing but `record` starts a job, and that
is offered only where it was allowed.
"""
