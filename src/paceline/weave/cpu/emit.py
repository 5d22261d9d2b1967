"""From phases to C++: one function that runs a whole program on shared memory.

The text is the same on every rank: rank and pointers come in as arguments. `kernel_runtime.hpp`
stands in front of it. Each phase is a loop over a chunk's elements, written once as a template for
vectors and single floats.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from paceline.graph import DType
from paceline.weave import ops
from paceline.weave.cpu import words
from paceline.weave.cpu.phases import Domain, ElementPhase, Phases
from paceline.weave.cpu.slots import Slot
from paceline.weave.layout import Layout, Partial
from paceline.weave.ops import ReduceKind
from paceline.weave.program import Statement

_RUNTIME = Path(__file__).with_name("kernel_runtime.hpp")


@dataclass(frozen=True)
class LoopSettings:
    """What may be tuned without changing what is computed; only sums fold by `chunk`."""

    chunk: int = 16384  # elements a rank takes at a time; its streams should fit the L2 cache
    stream_peers: bool = True  # non-temporal stores to other ranks' copies
    stream_own: bool = False  # and to what this rank has just read
    peers_first: bool = False  # order of the stores: others' copies before this rank's own
    prefetch: int = 0  # elements ahead; 0 leaves it to the hardware
    unroll: int = 1

    @staticmethod
    def of(settings: Mapping[str, int | float | str | bool]) -> "LoopSettings":
        """From settings by name; those of other back ends are left aside."""
        default = LoopSettings()
        names = {f.name for f in fields(LoopSettings)} & set(settings)
        return replace(default, **{n: type(getattr(default, n))(settings[n]) for n in names})


@dataclass(frozen=True)
class GeneratedKernel:
    """One generated function and how to call it."""

    name: str
    source: str
    scalars: tuple[str, ...]  # numbers that it takes, in order
    numbers: tuple[str, ...]  # and numbers that it gives
    reductions: tuple[str, ...]
    phases: int


def emit(
    form: Phases, slots: Mapping[str, Slot], tunables: LoopSettings, name: str
) -> GeneratedKernel:
    """The kernel of a program whose tensors lie in `slots`."""
    writer = _Writer(form, slots, tunables)
    return GeneratedKernel(
        name=name,
        source="\n".join(writer.text(name)),
        scalars=writer.scalars,
        numbers=writer.numbers,
        reductions=writer.reductions,
        phases=form.count,
    )


def library_source(kernels: Sequence[GeneratedKernel]) -> str:
    """All functions of a program as one text for the compiler."""
    return "\n".join(
        [_RUNTIME.read_text(), "using namespace paceline;", *(k.source for k in kernels)]
    )


def _kind(reduction: Statement) -> ReduceKind:
    assert isinstance(reduction.op, ops.Reduce)
    return reduction.op.kind


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _joined(parts: list[str], layout: Layout) -> str:
    """All ranks' parts of one element combined in rank order."""
    assert isinstance(layout, Partial)
    text = parts[0]
    for part in parts[1:]:
        text = words.JOIN[layout.op].format(text, part)
    return text


class _Writer:
    """Holds the names while the text is written; nothing else."""

    def __init__(self, form: Phases, slots: Mapping[str, Slot], tunables: LoopSettings) -> None:
        self.form, self.slots, self.tunables = form, slots, tunables
        self.program = form.program
        self.size = form.program.groups[0].size
        self.ids = {s.name: i for i, s in enumerate(self.program)}
        inputs = self.program.inputs
        self.scalars = tuple(s.name for s in inputs if s.type.is_scalar)
        self.numbers = tuple(n for n in self.program.returns if form.domains[n] is Domain.NUMBER)
        self.reductions = tuple(
            s.name for p in form.phases for s in self.program if s in p.reductions
        )

    # The function ------------------------------------------------------------------------------

    def text(self, name: str) -> Iterator[str]:
        yield f"namespace {name}_parts {{"
        for k, phase in enumerate(self.form.phases):
            yield from self._body(k, phase)
        yield "}"
        yield f'extern "C" int32_t {name}(const Team* team, float* const* buffers,'
        yield "                       const double* scalars, const int64_t* chunks,"
        yield "                       double* partials, double* numbers) {"
        yield f"    using namespace {name}_parts;"
        yield "    const Team& t = *team;"
        yield "    publish(t);"
        for k, phase in enumerate(self.form.phases):
            yield from self._numbers_of(k)
            yield from self._phase(k, phase)
        for at, name in enumerate(self.numbers):
            yield f"    numbers[{at}] = {self._number(name)};"
        yield "    return FINE;"
        yield "}"

    def _phase(self, k: int, phase: ElementPhase) -> Iterator[str]:
        """Chunks of one phase, then the totals that later phases read."""
        arguments = ", ".join(["buffers", "t.rank", "i", "segment", *self._passed(k, phase)])
        accumulators = "".join(f", a{self.ids[r.name]}" for r in phase.reductions)
        singles = "".join(f", s{self.ids[r.name]}" for r in phase.reductions)
        yield f"    if (int32_t outcome = run_phase(t, {k}, {_bool(k == 0)}, [&](int64_t c) {{"
        yield "            int64_t i = chunks[3 * c];"
        yield "            const int64_t end = i + chunks[3 * c + 1], segment = chunks[3 * c + 2];"
        yield "            (void)segment;"
        for r in phase.reductions:
            begin = words.BEGIN[_kind(r)]
            yield f"            wide a{self.ids[r.name]} = widest({begin});"
            yield f"            double s{self.ids[r.name]} = {begin};"
        if self._vectors:
            yield "            for (; i < end && i % WIDTH; ++i)"
            yield f"                body{k}<float>({arguments}{singles});"
            yield f"            #pragma GCC unroll {self.tunables.unroll}"
            yield "            for (; i + WIDTH <= end; i += WIDTH)"
            yield f"                body{k}<vec>({arguments}{accumulators});"
        yield "            for (; i < end; ++i)"
        yield f"                body{k}<float>({arguments}{singles});"
        for r in phase.reductions:
            at = self.reductions.index(r.name)
            fold = f"Fold<double>::{words.FOLD[_kind(r)]}"
            yield f"            partials[{at} * t.chunks + c] ="
            yield f"                collapse(a{self.ids[r.name]}, s{self.ids[r.name]}, {fold});"
        yield "            fence();"
        yield "        }); outcome != FINE)"
        yield "        return outcome;"
        for r in phase.reductions:
            yield from self._total(r)

    def _total(self, reduction: Statement) -> Iterator[str]:
        """Fold the chunks' parts in chunk order: the same bits on every rank."""
        n, at = self.ids[reduction.name], self.reductions.index(reduction.name)
        fold, begin = f"Fold<double>::{words.FOLD[_kind(reduction)]}", words.BEGIN[_kind(reduction)]
        if self.form.domains[reduction.name] is Domain.NUMBER:
            yield f"    double n{n} = {begin};"
            target = f"n{n}"
        else:
            yield f"    static thread_local double n{n}[{len(self.form.segments)}];"
            yield f"    for (double& x : n{n}) x = {begin};"
            target = f"n{n}[chunks[3 * c + 2]]"
        yield "    for (int64_t c = 0; c < t.chunks; ++c)"
        yield f"        {target} = {fold}({target}, partials[{at} * t.chunks + c]);"
        if self.form.domains[reduction.name] is Domain.NUMBER:
            yield f"    n{n} = {self._rounded(reduction, f'n{n}')};"
        else:
            yield f"    for (double& x : n{n}) x = {self._rounded(reduction, 'x')};"

    # Numbers and segments: computed by every rank for itself, in double, rounded to their type ---

    def _numbers_of(self, k: int) -> Iterator[str]:
        for s in self.program:
            if self.form.levels[s.name] != k or isinstance(s.op, ops.Reduce | ops.Const):
                continue
            n = self.ids[s.name]
            if self.form.domains[s.name] is Domain.NUMBER:
                value = (
                    f"scalars[{self.scalars.index(s.name)}]"
                    if isinstance(s.op, ops.Input)
                    else self._scalar(s, [self._number(a) for a in s.args])
                )
                yield f"    const double n{n} = {self._rounded(s, value)};"
            elif self.form.domains[s.name] is Domain.SEGMENT:
                args = [self._segment(a) for a in s.args]
                count = len(self.form.segments)
                yield f"    static thread_local double n{n}[{count}];"
                yield f"    for (int64_t s = 0; s < {count}; ++s)"
                yield f"        n{n}[s] = {self._rounded(s, self._scalar(s, args))};"

    def _number(self, name: str) -> str:
        op = self.program[name].op
        return repr(op.value) if isinstance(op, ops.Const) else f"n{self.ids[name]}"

    def _segment(self, name: str) -> str:
        segment = self.form.domains[name] is Domain.SEGMENT
        return f"n{self.ids[name]}[s]" if segment else self._number(name)

    def _scalar(self, s: Statement, args: list[str]) -> str:
        if isinstance(s.op, ops.Unary):
            return words.NUMBER_UNARY[s.op.kind].format(*args)
        if isinstance(s.op, ops.Binary):
            return words.NUMBER_BINARY[s.op.kind].format(*args)
        if isinstance(s.op, ops.Ite):
            return "({} ? {} : {})".format(*args)
        if isinstance(s.op, ops.MulAdd):
            return "({} * {} + {})".format(*args)
        return args[-1]  # collectives of totals, casts, Slice: all ranks hold the total already

    def _rounded(self, s: Statement, value: str) -> str:
        return f"double(float({value}))" if s.type.dtype is DType.FLOAT32 else value

    # One element -------------------------------------------------------------------------------

    def _passed(self, k: int, phase: ElementPhase) -> list[str]:
        """Numbers and segment values that a phase's elements read, as floats."""
        return [self._pass(name) for name in self._numbers_read(phase)]

    def _pass(self, name: str) -> str:
        segment = self.form.domains[name] is Domain.SEGMENT
        return f"n{self.ids[name]}[segment]" if segment else self._number(name)

    def _numbers_read(self, phase: ElementPhase) -> list[str]:
        names = dict.fromkeys(
            a
            for s in phase.statements
            for a in s.args
            if self.form.domains[a] is not Domain.ELEMENT
        )
        return [n for n in names if not isinstance(self.program[n].op, ops.Const)]

    def _body(self, k: int, phase: ElementPhase) -> Iterator[str]:
        numbers = "".join(f", double n{self.ids[n]}" for n in self._numbers_read(phase))
        sums = "".join(f", typename Lane<V>::Wide& a{self.ids[r.name]}" for r in phase.reductions)
        yield "template <class V>"
        yield f"static inline void body{k}(float* const* buffers, int rank, int64_t i,"
        yield "                           int64_t segment"
        yield f"                    {numbers}{sums}) {{"
        yield "    using S = Lane<V>;"
        yield "    (void)segment, (void)rank;"
        for name in phase.loads:
            yield from self._load(name, name)
        for name, target in phase.reloads.items():
            yield from self._load(name, target)
        for s in phase.statements:
            yield from self._compute(s)
        for r in phase.reductions:
            wide = f"S::widen({self._value(r.args[0])})"
            wide = f"{wide} * {wide}" if _kind(r) is ReduceKind.SUM_SQUARES else wide
            n = self.ids[r.name]
            fold = f"Fold<typename S::Wide>::{words.FOLD[_kind(r)]}"
            yield f"    a{n} = {fold}(a{n}, {wide});"
        for u in phase.updates:
            yield from self._store(u.args[0], self._value(u.args[1]))
        for name in phase.outputs:
            yield from self._store(name, self._value(name))
        yield "}"

    def _load(self, name: str, target: str) -> Iterator[str]:
        slot, n = self.slots[target], self.ids[name]
        index = "i" if slot.size == self.form.size else f"i % {slot.size}"
        parts = self._is_parts(name)
        for r in range(self.size if parts else 1):
            own = f" + {r}" if parts else " + rank" if slot.copies > 1 else ""
            pointer = f"buffers[{slot.first}{own}]"
            if self.tunables.prefetch and slot.size == self.form.size:
                yield f"    __builtin_prefetch({pointer} + i + {self.tunables.prefetch});"
            suffix = f"_{r}" if parts else ""
            yield f"    const V x{n}{suffix} = S::load({pointer}, {index}, {slot.size});"

    def _store(self, target: str, value: str) -> Iterator[str]:
        slot = self.slots[target]
        own = "stream" if self.tunables.stream_own else "store"
        peer = "stream" if self.tunables.stream_peers else "store"
        if slot.copies == 1:
            yield f"    S::{own}(buffers[{slot.first}], i, {value});"
            return
        stores = [
            f"    S::{own}(buffers[{slot.first} + rank], i, {value});",
            f"    for (int r = 1; r < {self.size}; ++r) "
            f"S::{peer}(buffers[{slot.first} + (rank + r) % {self.size}], i, {value});",
        ]
        yield from reversed(stores) if self.tunables.peers_first else stores

    def _compute(self, s: Statement) -> Iterator[str]:
        n = self.ids[s.name]
        if isinstance(s.op, ops.CollectiveOp) and self._is_parts(s.args[0]):
            parts = [self._value(s.args[0], r) for r in range(self.size)]
            yield f"    const V x{n} = {_joined(parts, self.program[s.args[0]].type.layout)};"
            return
        ranks = range(self.size) if self._is_parts(s.name) else [None]
        for r in ranks:
            suffix = "" if r is None else f"_{r}"
            yield f"    const auto x{n}{suffix} = {self._element(s, r)};"

    def _element(self, s: Statement, rank: int | None) -> str:
        args = [self._value(a, rank) for a in s.args]
        if isinstance(s.op, ops.Unary):
            return words.ELEMENT_UNARY[s.op.kind].format(*args)
        if isinstance(s.op, ops.Binary):
            return words.ELEMENT_BINARY[s.op.kind].format(*args)
        if isinstance(s.op, ops.Ite):
            return "({} ? {} : {})".format(*args)
        if isinstance(s.op, ops.MulAdd):
            return "S::mul_add({}, {}, {})".format(*args)
        if isinstance(s.op, ops.Dropout):
            return self._dropout(s, args[0])
        return args[-1]  # Slice, AllGather, Update, Repeat: the same element

    def _dropout(self, s: Statement, value: str) -> str:
        assert isinstance(s.op, ops.Dropout)
        seed, scale = self._pass(s.args[1]), f"{1 / (1 - s.op.p)!r}f"
        keep = f"philox(uint64_t({seed}), {s.op.site}u, uint64_t(e)) >= {int(s.op.p * 2**32)}u"
        return (
            f"S::indexed({value}, i, [&](float y, int64_t e) "
            f"{{ return ({keep}) ? y * {scale} : 0.0f; }})"
        )

    def _value(self, name: str, rank: int | None = None) -> str:
        """The expression of an operand within a body."""
        s = self.program[name]
        if isinstance(s.op, ops.Const):
            return f"S::splat(float({s.op.value!r}))"
        if self.form.domains[name] is not Domain.ELEMENT:
            return f"S::splat(float(n{self.ids[name]}))"
        return f"x{self.ids[name]}" + (f"_{rank}" if self._is_parts(name) else "")

    def _is_parts(self, name: str) -> bool:
        """True where each rank has a value of its own for one element."""
        s = self.program[name]
        return (
            isinstance(s.type.layout, Partial)
            and s.type.layout.root is None
            and self.form.domains[name] is Domain.ELEMENT
        )

    @property
    def _vectors(self) -> bool:
        """Stretched operands whose extent breaks up vectors make the loop scalar."""
        read = {t for p in self.form.phases for t in (*p.loads, *p.reloads.values())}
        sizes = {self.slots[name].size for name in read} - {self.form.size}
        return all(size % 16 == 0 for size in sizes)
