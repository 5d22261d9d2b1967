"""Faults put into source files: cosmic-ray's mutations, of which a seed picks one a line.

A line's place in the order depends on the seed and the line alone, so that a change to one file
moves no fault of another, and the first N of the order are a random sample in proportion to lines.
Annotations are left alone: a fault there fails at import, and catching it proves nothing. So are
mutations that do not compile, or that compile to the same program.
"""

import ast
import difflib
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Place = tuple[int, int]  # line, column


@dataclass(frozen=True)
class Fault:
    """One changed line of one file."""

    file: str
    line: int
    change: str
    text: str  # the whole file, changed

    @property
    def key(self) -> str:
        """The same as long as file and change are."""
        return hashlib.sha256(f"{self.file}\n{self.text}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class _Mutation:
    """One way in which cosmic-ray changes a file."""

    line: int
    operator: str
    occurrence: int  # as the operator counts in this file


@dataclass(frozen=True)
class _Line:
    """A line of a file with the mutations that begin on it."""

    file: str
    identity: str  # its text and which of the equal lines it is, whatever stands above it
    mutations: tuple[_Mutation, ...]


def faults(sources: Mapping[str, str], seed: int) -> Iterator[Fault]:
    """Every line's fault, in the order of the seed."""
    lines = [line for file, source in sources.items() for line in _lines(file, source)]
    lines.sort(key=lambda line: _drawn(seed, line.file, line.identity))
    for line in lines:
        if fault := _fault(line, sources[line.file], seed):
            yield fault


def _fault(line: _Line, source: str, seed: int) -> Fault | None:
    """The first of a line's mutations, in the order of the seed, that changes the program."""
    known = ast.dump(ast.parse(source))
    first, counts = line.mutations[0].line, Counter[str]()
    drawn = []
    for mutation in line.mutations:
        counts[mutation.operator] += 1
        nth = str(counts[mutation.operator])
        drawn.append((_drawn(seed, line.file, line.identity, mutation.operator, nth), mutation))
    for _, mutation in sorted(drawn, key=lambda pair: pair[0]):
        text = _mutated(source, mutation)
        if _parsed(text) not in {None, known}:
            return Fault(line.file, first, _change(source, text), text)
    return None


def _lines(file: str, source: str) -> Iterator[_Line]:
    texts, seen = source.split("\n"), Counter[str]()
    by_line = defaultdict(list)
    for mutation in _mutations(source):
        by_line[mutation.line].append(mutation)
    for number in sorted(by_line):
        text = texts[number - 1].strip()
        seen[text] += 1
        yield _Line(file, f"{text} {seen[text]}", tuple(by_line[number]))


def _mutations(source: str) -> Iterator[_Mutation]:
    from cosmic_ray.ast import ast_nodes, get_ast

    nodes, spared = list(ast_nodes(get_ast(source))), _annotated(source)
    for name, operator in _operators():
        starts = (begin for node in nodes for begin, _ in operator.mutation_positions(node))
        for occurrence, place in enumerate(starts):
            if not any(begin <= place < end for begin, end in spared.get(place[0], ())):
                yield _Mutation(place[0], name, occurrence)


def _operators() -> Iterator[tuple[str, Any]]:
    """Those that need no settings of their own."""
    from cosmic_ray.plugins import get_operator, operator_names

    for name in sorted(operator_names()):
        if not get_operator(name).arguments():
            yield name, get_operator(name)()


def _mutated(source: str, mutation: _Mutation) -> str:
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    operator = get_operator(mutation.operator)()
    try:
        text = mutate_code(source, operator, mutation.occurrence)
    except AttributeError:  # its ExceptionReplacer knows no dotted name of an exception
        return source
    return source if text is None else text


def _parsed(text: str) -> str | None:
    try:
        return ast.dump(compile(text, "mutant", "exec", ast.PyCF_ONLY_AST))
    except SyntaxError:
        return None


def _annotated(source: str) -> dict[int, list[tuple[Place, Place]]]:
    """Where annotations begin and end, by each of their lines."""
    found = defaultdict(list)
    for begin, end in _annotations(source):
        for line in range(begin[0], end[0] + 1):
            found[line].append((begin, end))
    return found


def _annotations(source: str) -> Iterator[tuple[Place, Place]]:
    for node in ast.walk(ast.parse(source)):
        for found in _annotations_of(node):
            assert found.end_lineno is not None
            assert found.end_col_offset is not None
            yield (found.lineno, found.col_offset), (found.end_lineno, found.end_col_offset)


def _annotations_of(node: ast.AST) -> Iterable[ast.expr]:
    if isinstance(node, ast.AnnAssign):
        return [node.annotation]
    held = node.annotation if isinstance(node, ast.arg) else getattr(node, "returns", None)
    return [held] if held else []


def _change(before: str, after: str) -> str:
    """The lines that differ, as they were and as they are."""
    told = list(difflib.ndiff(before.split("\n"), after.split("\n")))
    old, new = (
        " ".join(" ".join(line[2:] for line in told if line[0] == sign).split()) for sign in "-+"
    )
    return f"{old} -> {new or 'nothing'}"


def _drawn(seed: int, *words: str) -> str:
    return hashlib.sha256("\n".join((str(seed), *words)).encode()).hexdigest()
