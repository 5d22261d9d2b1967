"""Connecting two ranks: who is let in, and what is said where there is no route."""

import socket

import pytest

pytest.importorskip("torch", reason="ranks find each other by torch.distributed")

from paceline.weave.backends import peer_link
from paceline.weave.host import HostSettings


@pytest.fixture
def here(monkeypatch) -> HostSettings:
    """On loopback, and impatient."""
    monkeypatch.setattr(peer_link, "_CONNECT_S", 0.2)
    return HostSettings(interface="lo")


def test_only_a_process_that_knows_the_token_is_let_in(here) -> None:
    listening, endpoint = peer_link._listen(here)
    assert listening is not None
    with listening, socket.create_connection(endpoint.address) as stranger:
        stranger.sendall(b"x" * len(endpoint.token))
        near, reason = peer_link._connected(endpoint)
        far, other = peer_link._accepted(listening, endpoint)
        assert (reason, other) == ("", "")
        assert near is not None
        assert far is not None
        with near, far:
            near.sendall(b"rows")
            assert far.recv(4) == b"rows"
        assert stranger.recv(1) == b""  # it was turned away


def test_without_a_route_the_reason_names_the_address(here) -> None:
    listening, endpoint = peer_link._listen(here)
    assert listening is not None
    with listening:
        assert "no rank connected to 127.0.0.1" in peer_link._accepted(listening, endpoint)[1]
    assert "127.0.0.1 cannot be reached" in peer_link._connected(endpoint)[1]
    assert peer_link._connected(peer_link._Endpoint(reason="no interface"))[1] == "no interface"


def test_the_address_is_that_of_gloos_interface_or_of_the_route_to_the_master() -> None:
    nowhere, by_master = HostSettings(interface="none0"), HostSettings(master=("127.0.0.1", 1))
    assert peer_link.own_address(HostSettings(interface="lo")) == "127.0.0.1"
    assert peer_link.own_address(by_master) == "127.0.0.1"
    assert "cannot listen" in peer_link._listen(nowhere)[1].reason
