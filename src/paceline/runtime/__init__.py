"""Hooks on a live job: what changes how a running training works.

Importing this room brings no torch; files named `torch_*` need it.
"""
