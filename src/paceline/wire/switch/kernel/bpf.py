"""The bpf() system call: maps with one value, programs for tc's hooks, test runs.

Everything is freed with its descriptor, or with the last filter that holds it.
"""

import ctypes
import errno
import os
import platform
import struct
from dataclasses import dataclass

from paceline.wire.errors import WireError

_NUMBERS = {"x86_64": 321, "aarch64": 280, "riscv64": 280}
_MAP_CREATE, _MAP_LOOKUP, _MAP_UPDATE, _PROG_LOAD, _TEST_RUN = 0, 1, 2, 5, 10
_MAP_NEXT_ID, _MAP_BY_ID, _INFO = 12, 14, 15
_ARRAY, _SCHED_CLS = 2, 3
_ATTRIBUTES_BYTES = 128
_LOG_BYTES = 1 << 16
_KEY = (0).to_bytes(4, "little")
_SKB_BYTES = 192  # struct __sk_buff, with room for later kernels' fields


def make_map(name: str, value: bytes) -> int:
    """An array map with this one value; its descriptor."""
    made = _bpf(
        _MAP_CREATE, struct.pack("<IIIIIII16s", _ARRAY, 4, len(value), 1, 0, 0, 0, name.encode())
    )
    write_map(made, value)
    return made


def write_map(descriptor: int, value: bytes) -> None:
    key, new = ctypes.create_string_buffer(_KEY, 4), ctypes.create_string_buffer(value, len(value))
    _bpf(_MAP_UPDATE, struct.pack("<IxxxxQQQ", descriptor, _at(key), _at(new), 0))


def read_map(descriptor: int, size_bytes: int) -> bytes:
    key, value = ctypes.create_string_buffer(_KEY, 4), ctypes.create_string_buffer(size_bytes)
    _bpf(_MAP_LOOKUP, struct.pack("<IxxxxQQQ", descriptor, _at(key), _at(value), 0))
    return value.raw


def find_map(name: str) -> int | None:
    """The descriptor of the newest map of this name; None where there is none."""
    found, number = None, 0
    while True:
        attributes = ctypes.create_string_buffer(
            struct.pack("<III", number, 0, 0), _ATTRIBUTES_BYTES
        )
        try:
            _call(_MAP_NEXT_ID, attributes)
        except WireError:
            return found
        number = struct.unpack_from("<I", attributes, 4)[0]
        descriptor = _opened(number)
        if descriptor is None:
            continue
        if _map_name(descriptor) == name:
            if found is not None:
                os.close(found)
            found = descriptor
        else:
            os.close(descriptor)


def load_program(code: bytes) -> int:
    """A checked program; the verifier's last words where it refuses."""
    instructions = ctypes.create_string_buffer(code, len(code))
    licence, log = ctypes.create_string_buffer(b"GPL"), ctypes.create_string_buffer(_LOG_BYTES)
    attributes = struct.pack(
        "<IIQQIIQ",
        _SCHED_CLS,
        len(code) // 8,
        _at(instructions),
        _at(licence),
        1,
        _LOG_BYTES,
        _at(log),
    )
    try:
        return _bpf(_PROG_LOAD, attributes)
    except WireError as error:
        said = log.value.decode(errors="replace").strip().splitlines()[-12:]
        raise WireError("\n".join([str(error), *said])) from None


@dataclass(frozen=True)
class Tested:
    """What a program made of a frame."""

    verdict: int
    frame: bytes
    priority: int  # skb->priority: the HTB class
    hash: int


def test_run(program: int, frame: bytes) -> Tested:
    """Run a program on one Ethernet frame."""
    given, out = ctypes.create_string_buffer(frame, len(frame)), ctypes.create_string_buffer(2048)
    skb = ctypes.create_string_buffer(_SKB_BYTES)
    context = ctypes.create_string_buffer(_SKB_BYTES)
    attributes = ctypes.create_string_buffer(
        struct.pack(
            "<IIIIQQIIIIQQ", program, 0, len(frame), 2048, _at(given), _at(out), 1, 0,
            _SKB_BYTES, _SKB_BYTES, _at(context), _at(skb),
        ),
        _ATTRIBUTES_BYTES,
    )  # fmt: skip
    _call(_TEST_RUN, attributes)
    verdict, _, size = struct.unpack_from("<III", attributes, 4)
    return Tested(
        verdict,
        out.raw[:size],
        struct.unpack_from("<I", skb, 32)[0],
        struct.unpack_from("<I", skb, 68)[0],
    )


def _opened(number: int) -> int | None:
    try:
        return _bpf(_MAP_BY_ID, struct.pack("<III", number, 0, 0))
    except WireError:
        return None  # gone meanwhile


def _map_name(descriptor: int) -> str:
    info = ctypes.create_string_buffer(80)
    _bpf(_INFO, struct.pack("<IIQ", descriptor, 80, _at(info)))
    return info.raw[24:40].split(b"\0")[0].decode()


def _bpf(command: int, attributes: bytes) -> int:
    return _call(command, ctypes.create_string_buffer(attributes, _ATTRIBUTES_BYTES))


def _call(command: int, attributes: "ctypes.Array[ctypes.c_char]") -> int:
    number = _NUMBERS.get(platform.machine())
    if platform.system() != "Linux" or number is None:
        raise WireError(
            f"the kernel's switch needs Linux on {', '.join(_NUMBERS)}; "
            f"this is {platform.system()} on {platform.machine()}. Use the user-space switch."
        )
    libc = ctypes.CDLL(None, use_errno=True)
    result = int(libc.syscall(number, command, attributes, _ATTRIBUTES_BYTES))
    if result < 0:
        raise WireError(_refusal(ctypes.get_errno()))
    return result


def _refusal(code: int) -> str:
    if code in (errno.EPERM, errno.EACCES):
        return (
            f"the kernel refuses bpf(): {os.strerror(code)}. Root (CAP_BPF and CAP_NET_ADMIN) may "
            "load a switch; without it, use the user-space switch"
        )
    return f"the kernel refuses bpf(): {os.strerror(code)}"


def _at(buffer: "ctypes.Array[ctypes.c_char]") -> int:
    return ctypes.addressof(buffer)
