"""Serve runs to an assistant over the Model Context Protocol, on standard input and output.

Tools: show, predict, diff, and search and history where they are installed, each with a typed
answer. They read; a run's graph is kept in its folder as `show` keeps it. --allow-run adds record,
which starts commands on this machine. Needs the package mcp: pip install 'paceline[mcp]'.
"""

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--allow-run", action="store_true", help="also offer to start jobs")


def run(options: argparse.Namespace) -> int:
    from paceline.assist.server import server

    server(allow_run=options.allow_run).run("stdio")
    return 0
