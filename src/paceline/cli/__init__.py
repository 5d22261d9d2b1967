"""The `paceline` command. One file in this folder is one command; this file only finds and runs it.

A command module has a docstring (its first line is the help), `configure(parser)`, and
`run(options) -> Shown | int`. It computes first and returns what to show; here it is shown, as
text or, with `--json`, as one JSON object. Exit codes: 0 fine, 1 could not, 2 wrong use.
"""

import argparse
import json
import logging
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from paceline import __version__
from paceline.errors import PacelineError


@dataclass(frozen=True)
class Shown:
    """A command's result: `data` for machines, `render(console)` for people."""

    data: Any
    render: Callable[[Any], None]
    exit_code: int = 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the process's exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser(_needed(given)).parse_args(given)
    try:
        result = options.command.run(options)
        return _show(result, as_json=options.json) if isinstance(result, Shown) else int(result)
    except PacelineError as error:
        print(f"paceline: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 0


def command_name(module_name: str) -> str:
    """`import_` is the file of `paceline import`: a trailing underscore dodges a keyword."""
    return module_name.rstrip("_").replace("_", "-")


def _commands() -> dict[str, str]:
    """The file of every command, by the name that the command has on the command line."""
    found = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return {command_name(name): name for name in found}


def _needed(given: Sequence[str]) -> dict[str, ModuleType]:
    """The command that is asked for; every one where none is, for their help. The rest is not
    imported: together they take a second."""
    files = _commands()
    if given and given[0] == "--version":
        return {}
    asked = next((word for word in given if not word.startswith("-")), None)
    names = [asked] if asked in files else files
    return {name: import_module(f"{__name__}.{files[name]}") for name in names}


def _parser(commands: Mapping[str, ModuleType]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="paceline", description=_summary(import_module("paceline"))
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="version and engine")
    added = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, module in commands.items():
        sub = added.add_parser(
            name,
            help=_summary(module),
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.add_argument("--json", action="store_true", help="print one JSON object")
        sub.set_defaults(command=module)
        module.configure(sub)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from paceline.engine import engine_name

        print(f"paceline {__version__}, engine: {engine_name()}")
        parser.exit(0)


def _summary(module: ModuleType) -> str:
    return (module.__doc__ or "").strip().splitlines()[0]


def _show(result: Shown, *, as_json: bool) -> int:
    if as_json:
        print(json.dumps(result.data, indent=2, allow_nan=False))
    else:
        from rich.console import Console

        result.render(Console(highlight=False))
    return result.exit_code
