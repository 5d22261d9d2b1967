"""gloo's connections are found and told which congestion control to use; other files are not."""

import os
import socket

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
