"""gloo's connections are found and told which congestion control to use; other files are not."""

import os
import socket
from pathlib import Path
from threading import Thread

import pytest

pytestmark = pytest.mark.needs("torch", "linux")


def controlled(given: int, congestion: str) -> bool:
    from paceline.wire.torch_gloo import controlled

    return controlled(given, congestion)


def control(given: socket.socket) -> str:
    told = given.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return told.split(b"\0")[0].decode()


def test_a_connection_is_told_and_stays_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as link:
            assert controlled(link.fileno(), "reno")
            assert control(link) == "reno"
            link.sendall(b"still open")
        before = control(server)
        assert not controlled(server.fileno(), "reno")
        assert control(server) == before


def test_other_sockets_are_left_alone() -> None:
    here, there = socket.socketpair()
    with here, there, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        assert not controlled(here.fileno(), "reno")
        assert not controlled(datagrams.fileno(), "reno")
        assert os.fstat(here.fileno())


def test_an_unknown_control_is_refused() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as link,
        pytest.raises(OSError, match="No such file"),
    ):
        controlled(link.fileno(), "nonesuch")


def test_the_connections_of_a_group_use_the_control_that_is_asked_for() -> None:
    from paceline.wire.torch_gloo import Seat, group

    settings = Path("/proc/sys/net/ipv4")
    usual = (settings / "tcp_congestion_control").read_text().strip()
    known = (settings / "tcp_available_congestion_control").read_text().split()
    others = [each for each in known if each != usual]
    if not others:
        pytest.skip(f"this kernel has no other congestion control than {usual}")
    before = {int(name) for name in os.listdir("/proc/self/fd")}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    made: dict[int, object] = {}

    def join(rank: int) -> None:
        made[rank] = group(Seat(rank, 2, "127.0.0.1", port), others[0])

    other = Thread(target=join, args=(1,))
    other.start()
    join(0)
    other.join()
    assert set(made) == {0, 1}
    assert links_told(before, others[0]) >= 2


def links_told(before: set[int], congestion: str) -> int:
    """Connections opened since then that use it."""
    found = 0
    for name in set(map(int, os.listdir("/proc/self/fd"))) - before:
        try:
            with socket.socket(fileno=os.dup(name)) as opened:
                opened.getpeername()
                found += control(opened) == congestion
        except OSError:
            continue
    return found
