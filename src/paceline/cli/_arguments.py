"""Arguments that several commands share. Not a command: its name begins with an underscore."""

import argparse


def add_graph(parser: argparse.ArgumentParser, name: str = "graph") -> None:
    parser.add_argument(name, metavar=name.upper(), help="graph or run folder, or Chakra traces")


def count(text: str) -> int:
    """A whole number of at least 1."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return value
