"""Laying a cable between two ranks: who is let in, and what is said where there is no way."""

import socket

import pytest

pytest.importorskip("torch", reason="cables are laid by torch.distributed")

from paceline.weave.backends import cable


@pytest.fixture
def here(monkeypatch) -> None:
    """On loopback, and impatient."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    monkeypatch.setattr(cable, "_MEETING_S", 0.2)


def test_only_the_one_who_knows_the_word_is_let_in(here) -> None:
    listening, where = cable._listen()
    assert listening is not None
    with listening, socket.create_connection(where.address) as stranger:
        stranger.sendall(b"x" * len(where.token))
        near, reason = cable._connected(where)
        far, other = cable._accepted(listening, where)
        assert (reason, other) == ("", "")
        assert near is not None
        assert far is not None
        with near, far:
            near.sendall(b"rows")
            assert far.recv(4) == b"rows"
        assert stranger.recv(1) == b""  # it was turned away


def test_without_a_way_the_reason_names_the_address(here) -> None:
    listening, where = cable._listen()
    assert listening is not None
    with listening:
        assert "nobody came to 127.0.0.1" in cable._accepted(listening, where)[1]
    assert "127.0.0.1 cannot be reached" in cable._connected(where)[1]
    assert cable._connected(cable._Where(reason="no interface"))[1] == "no interface"


def test_the_address_is_that_of_gloos_interface_or_of_the_way_to_the_master(monkeypatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    assert cable.own_address() == "127.0.0.1"
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "none0")
    assert "cannot listen" in cable._listen()[1].reason
    monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    assert cable.own_address() == "127.0.0.1"
