"""The switch's two programs for tc's hooks, written out for one port.

`switch_program` runs where packets leave through a port. It keeps a shadow of the port's queue: for
every priority the time at which all that is queued of it and above will have been sent at the
port's rate. From that it knows a packet's backlog, drops, marks and counts by the `Rule`, and names
the HTB class. `spray_program` runs where packets arrive: it gives each coded packet the next of a
sequence of hashes that fall evenly on any number of equal paths, of which the kernel's routing
chooses by hash; plain packets keep their connection's path.
"""

from collections.abc import Iterator

from paceline.wire.switch.codes import IMPORTANCES, PLAIN, PLAIN_PRIORITY, PRIORITIES
from paceline.wire.switch.kernel.assembler import (
    Alu,
    Jump,
    Label,
    Line,
    Size,
    alu,
    atomic_add,
    atomic_fetch_add,
    call,
    compare_and_exchange,
    jump,
    leave,
    load,
    map_value,
    store,
)
from paceline.wire.switch.kernel.layout import (
    BUSY,
    CELL_BYTES,
    CELLS,
    DROPPED,
    LIMITS,
    MARKED,
    PASSED,
    SPRAYED,
    ns_per_kib,
)
from paceline.wire.switch.rule import Rule

FIRST_CLASS = 0x10
"""HTB's class of priority 0 is 1:10; `tc` reads class numbers as hexadecimal."""
ROOT = 1

_LEN, _PROTOCOL, _PRIORITY = 0, 16, 32  # in struct __sk_buff
_IPV4 = 0x0008  # ETH_P_IP as the field holds it
_TOS = 15  # of the frame: behind Ethernet's header and IP's first byte
_KTIME_GET_NS, _SKB_LOAD_BYTES, _SET_HASH, _SKB_ECN_SET_CE = 5, 26, 48, 97
_OK, _SHOT = 0, 2
_TRIES = 4  # of an update that another core got in between of
_GOLDEN = 0x9E3779B1  # its multiples fall evenly on a circle

_SKB, _RANK, _BASE, _NOW = 6, 7, 8, 9  # registers that outlive calls; _RANK is the priority
_STACK = 10
_COST, _CODE, _BYTE = -8, -16, -24  # on the stack


def switch_program(rule: Rule, map_descriptor: int) -> list[Line]:
    return [
        *_begin(map_descriptor),
        *_classify(),
        *_cost_ns(rule),
        *_drop_above_limit(),
        *_mark_above(rule),
        *(line for priority in range(PRIORITIES) for line in _queue(priority)),
        *_count(PASSED),
        *_choose_class(),
        alu(Alu.MOVE, 0, constant=_OK),
        leave(),
        Label("drop"),
        *_count(DROPPED),
        alu(Alu.MOVE, 0, constant=_SHOT),
        leave(),
        Label("foreign"),
        alu(Alu.MOVE, _RANK, constant=0),
        *_choose_class(),
        alu(Alu.MOVE, 0, constant=_OK),
        leave(),
    ]


def spray_program(map_descriptor: int) -> list[Line]:
    return [
        *_begin(map_descriptor),
        jump(Jump.EQUAL, "foreign", _RANK, constant=PLAIN),
        alu(Alu.MOVE, 2, constant=1),
        atomic_fetch_add(_BASE, SPRAYED, 2),
        alu(Alu.MUL, 2, constant=_GOLDEN),
        alu(Alu.MOVE, 1, register=_SKB),
        call(_SET_HASH),
        Label("foreign"),
        alu(Alu.MOVE, 0, constant=_OK),
        leave(),
    ]


def _begin(map_descriptor: int) -> Iterator[Line]:
    """The packet's code to _RANK; what is not IPv4 goes to `foreign`."""
    yield alu(Alu.MOVE, _SKB, register=1)
    yield map_value(_BASE, map_descriptor)
    yield load(Size.WORD, 2, _SKB, _PROTOCOL)
    yield jump(Jump.NOT_EQUAL, "foreign", 2, constant=_IPV4)
    yield alu(Alu.MOVE, 1, register=_SKB)
    yield alu(Alu.MOVE, 2, constant=_TOS)
    yield alu(Alu.MOVE, 3, register=_STACK)
    yield alu(Alu.ADD, 3, constant=_BYTE)
    yield alu(Alu.MOVE, 4, constant=1)
    yield call(_SKB_LOAD_BYTES)
    yield jump(Jump.NOT_EQUAL, "foreign", 0, constant=0)
    yield load(Size.BYTE, _RANK, _STACK, _BYTE)
    yield alu(Alu.RIGHT, _RANK, constant=2)


def _classify() -> Iterator[Line]:
    """Keeps the code; register 3 is the row of its limit, _RANK its priority."""
    yield store(Size.DOUBLE, _STACK, _CODE, _RANK)
    yield alu(Alu.MOVE, 3, register=_RANK)
    yield alu(Alu.AND, 3, constant=IMPORTANCES - 1)
    yield jump(Jump.NOT_EQUAL, "coded", _RANK, constant=PLAIN)
    yield alu(Alu.MOVE, 3, constant=IMPORTANCES)  # the row of plain packets
    yield alu(Alu.MOVE, _RANK, constant=PLAIN_PRIORITY << 3)
    yield Label("coded")
    yield alu(Alu.RIGHT, _RANK, constant=3)
    yield alu(Alu.AND, _RANK, constant=PRIORITIES - 1)
    yield alu(Alu.LEFT, 3, constant=3)
    yield alu(Alu.ADD, 3, register=_BASE)
    yield load(Size.DOUBLE, 3, 3, LIMITS)
    yield store(Size.DOUBLE, _STACK, _BYTE, 3)


def _cost_ns(rule: Rule) -> Iterator[Line]:
    """How long the port sends this packet, on the stack; and the time."""
    yield load(Size.WORD, 2, _SKB, _LEN)
    yield alu(Alu.MUL, 2, constant=ns_per_kib(rule))
    yield alu(Alu.RIGHT, 2, constant=10)
    yield store(Size.DOUBLE, _STACK, _COST, 2)
    yield call(_KTIME_GET_NS)
    yield alu(Alu.MOVE, _NOW, register=0)


def _drop_above_limit() -> Iterator[Line]:
    """Register 2 is the packet's backlog, itself included, as time."""
    yield alu(Alu.MOVE, 1, register=_RANK)
    yield alu(Alu.LEFT, 1, constant=3)
    yield alu(Alu.ADD, 1, register=_BASE)
    yield load(Size.DOUBLE, 2, 1, BUSY)
    yield jump(Jump.ABOVE, "queued", 2, register=_NOW)
    yield alu(Alu.MOVE, 2, register=_NOW)
    yield Label("queued")
    yield alu(Alu.SUB, 2, register=_NOW)
    yield load(Size.DOUBLE, 3, _STACK, _COST)
    yield alu(Alu.ADD, 2, register=3)
    yield load(Size.DOUBLE, 3, _STACK, _BYTE)
    yield jump(Jump.ABOVE, "drop", 2, register=3)


def _mark_above(rule: Rule) -> Iterator[Line]:
    if not rule.mark_bytes:
        return
    yield alu(Alu.MOVE, 3, constant=rule.mark_bytes)
    yield alu(Alu.MUL, 3, constant=ns_per_kib(rule))
    yield alu(Alu.RIGHT, 3, constant=10)
    yield jump(Jump.ABOVE, "mark", 2, register=3)
    yield jump(Jump.ALWAYS, "unmarked")
    yield Label("mark")
    yield alu(Alu.MOVE, 1, register=_SKB)
    yield call(_SKB_ECN_SET_CE)
    yield jump(Jump.EQUAL, "unmarked", 0, constant=0)
    yield from _count(MARKED)
    yield Label("unmarked")


def _queue(priority: int) -> Iterator[Line]:
    """The packet is before all of this priority, unless its own is lower."""
    again, done, place = f"again{priority}", f"done{priority}", BUSY + 8 * priority
    yield jump(Jump.ABOVE, done, _RANK, constant=priority)
    yield load(Size.DOUBLE, 4, _STACK, _COST)
    yield alu(Alu.MOVE, 5, constant=_TRIES)
    yield Label(again)
    yield load(Size.DOUBLE, 0, _BASE, place)
    yield alu(Alu.MOVE, 2, register=0)
    yield alu(Alu.MOVE, 3, register=0)
    yield jump(Jump.ABOVE, f"behind{priority}", 3, register=_NOW)
    yield alu(Alu.MOVE, 3, register=_NOW)
    yield Label(f"behind{priority}")
    yield alu(Alu.ADD, 3, register=4)
    yield compare_and_exchange(_BASE, place, 3)
    yield jump(Jump.EQUAL, done, 0, register=2)
    yield alu(Alu.SUB, 5, constant=1)
    yield jump(Jump.NOT_EQUAL, again, 5, constant=0)
    yield Label(done)


def _count(what: int) -> Iterator[Line]:
    """One more in the packet's cell."""
    yield load(Size.DOUBLE, 1, _STACK, _CODE)
    yield alu(Alu.AND, 1, constant=PRIORITIES * IMPORTANCES - 1)
    yield alu(Alu.MUL, 1, constant=CELL_BYTES)
    yield alu(Alu.ADD, 1, register=_BASE)
    yield alu(Alu.MOVE, 2, constant=1)
    yield atomic_add(1, CELLS + what, 2)


def _choose_class() -> Iterator[Line]:
    yield alu(Alu.ADD, _RANK, constant=ROOT << 16 | FIRST_CLASS)
    yield store(Size.WORD, _SKB, _PRIORITY, _RANK)
