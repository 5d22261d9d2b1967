"""The part of Chakra's protobuf schema (et_def.proto) that traces use, built at run time.

Message classes live in a descriptor pool of their own, so a program that has Chakra's generated
classes loaded as well meets no conflict. Enums are read as plain integers: a node type that is
newer than this table still parses.
"""

from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

from paceline.errors import PacelineError
from paceline.graph.kinds import Collective

VERSION = "0.0.4"
"""Written into `GlobalMetadata.version`; readers treat it as a remark."""


class NodeType(IntEnum):
    """`Node.type`."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7
    STORAGE = 8
    BATCH = 9
    CHECKPOINT = 10


COMM_TYPES = {
    0: Collective.ALL_REDUCE,
    1: Collective.REDUCE,
    2: Collective.ALL_GATHER,
    3: Collective.GATHER,
    4: Collective.SCATTER,
    5: Collective.BROADCAST,
    6: Collective.ALL_TO_ALL,
    7: Collective.REDUCE_SCATTER,
    8: Collective.REDUCE_SCATTER,  # REDUCE_SCATTER_BLOCK: equal parts, which ours always are
    9: Collective.BARRIER,
}
"""`CollectiveCommType` in the attribute `comm_type`."""

COMM_NUMBERS = {kind: number for number, kind in reversed(COMM_TYPES.items())}


class Messages(NamedTuple):
    """The two messages of a trace file: one `metadata`, then one `node` after the other."""

    metadata: Any
    node: Any


_SCALARS = (
    "double float int32 int64 uint32 uint64 sint32 sint64 fixed32 fixed64 sfixed32 sfixed64 "
    "bool string bytes"
).split()
"""Value types of an attribute: type i is field 3 + 2i, a list of it field 4 + 2i."""

_MESSAGES = {
    "GlobalMetadata": (("version", 1, "string", ""), ("attr", 2, "*AttributeProto", "")),
    "Node": (
        ("id", 1, "uint64", ""),
        ("name", 2, "string", ""),
        ("type", 3, "int32", ""),
        ("ctrl_deps", 4, "*uint64", ""),
        ("data_deps", 5, "*uint64", ""),
        ("start_time_micros", 6, "uint64", ""),
        ("duration_micros", 7, "uint64", ""),
        ("attr", 10, "*AttributeProto", ""),
    ),
    "AttributeProto": (
        ("name", 1, "string", ""),
        *(
            field
            for i, kind in enumerate(_SCALARS)
            for field in (
                (f"{kind}_val", 3 + 2 * i, kind, "value"),
                (f"{kind}_list", 4 + 2 * i, f"{kind.capitalize()}List", "value"),
            )
        ),
    ),
    **{f"{kind.capitalize()}List": (("values", 1, f"*{kind}", ""),) for kind in _SCALARS},
}
"""Message -> (field, number, type, oneof); a star repeats, a capital letter is a message."""


@cache
def messages() -> Messages:
    """The message classes, built on first use."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ModuleNotFoundError as error:
        raise PacelineError(
            "Chakra traces need the protobuf package, which is not installed. "
            "Install it with `pip install paceline[chakra]`."
        ) from error
    file = descriptor_pb2.FileDescriptorProto(
        name="paceline_et_def.proto", package="ChakraProtoMsg", syntax="proto3"
    )
    for name, table in _MESSAGES.items():
        _declare(file.message_type.add(name=name), table)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    classes = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}"))
        for name in ("GlobalMetadata", "Node")
    )
    return Messages(*classes)


def _declare(message: Any, table: tuple[tuple[str, int, str, str], ...]) -> None:
    for name, number, kind, oneof in table:
        field = message.field.add(name=name, number=number)
        field.label = field.LABEL_REPEATED if kind.startswith("*") else field.LABEL_OPTIONAL
        plain = kind.removeprefix("*")
        if plain in _SCALARS:
            field.type = getattr(field, f"TYPE_{plain.upper()}")
        else:
            field.type = field.TYPE_MESSAGE
            field.type_name = f".ChakraProtoMsg.{plain}"
        if oneof:
            if not message.oneof_decl:
                message.oneof_decl.add(name=oneof)
            field.oneof_index = 0
