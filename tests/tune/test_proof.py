"""Hosts that tune together know each other from strangers, and what they say is not changed."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.launch import Process
from paceline.trial import Ending, Ran, Watching
from paceline.tune import TuneError
from paceline.tune.hosts import Followed, Meeting, follow, gathered, meeting_of
from paceline.tune.hosts.proof import Signed, Stranger, key_of, proved
from paceline.tune.hosts.wire import Begin, Hello, Lost, Said, SignedConnection, StopJob

COMMAND = ("torchrun", "--nnodes", "2", "train.py")
Place = Callable[[Process, Watching], Ran]


@pytest.fixture
def meeting() -> Meeting:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return Meeting(2, "127.0.0.1", free.getsockname()[1], 0, wait_s=20.0, secret="ours")


def runs(process: Process, watching: Watching) -> Ran:
    return Ran(Ending.ENOUGH, 0, "")


def following(meeting: Meeting, folder: Path, place: Place = runs) -> "Future[Followed]":
    pool = ThreadPoolExecutor(1)
    found = pool.submit(follow, replace(meeting, number=1), COMMAND, folder, {}, place)
    pool.shutdown(wait=False)
    return found


def pair() -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        one = socket.create_connection(door.getsockname())
        return one, door.accept()[0]


@contextmanager
def met(one: bytes, other: bytes) -> Iterator[tuple[socket.socket, Signed, socket.socket, Signed]]:
    """Both ends of a connection after the proof: first that of the host that leads."""
    lead, follows = pair()
    with lead, follows, ThreadPoolExecutor(1) as pool:
        theirs = pool.submit(proved, follows, other, leads=False)
        try:
            mine = proved(lead, one, leads=True)
        except Stranger:
            lead.close()
            raise
        yield lead, mine, follows, theirs.result()


def test_a_host_without_the_secret_is_refused_and_named_on_both_sides(
    meeting: Meeting, tmp_path: Path
) -> None:
    done, told = following(replace(meeting, secret="another"), tmp_path), list[str]()
    with (
        pytest.raises(TuneError, match=r"Refused were 127\.0\.0\.1 \(it does not know the secret"),
        gathered(replace(meeting, wait_s=2.0), COMMAND, told.append),
    ):
        pass
    assert any("refused a connection from 127.0.0.1" in line for line in told)
    with pytest.raises(TuneError, match=r"does not take this host.*Set PACELINE_SECRET"):
        done.result(20)


def test_a_stranger_is_refused_and_the_jobs_own_host_comes_in(
    meeting: Meeting, tmp_path: Path
) -> None:
    told: list[str] = []
    strays: list[socket.socket] = []
    hosts: list[Future[Followed]] = []

    def tell(line: str) -> None:
        told.append(line)
        if line.startswith("waiting"):
            strays.append(socket.create_connection((meeting.address, meeting.port)))
            strays[0].sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            hosts.append(following(meeting, tmp_path))

    with gathered(meeting, COMMAND, tell) as gone:
        gone.tell("keep what you have", None)
        assert "(number 1)" in str(gone.hosts[0])
    assert hosts[0].result(20).decision == "keep what you have"
    assert any("it is no `paceline tune`" in line for line in told)
    strays[0].close()


def test_another_program_at_the_meetings_port_is_not_taken_for_the_leader(
    meeting: Meeting, tmp_path: Path
) -> None:
    with socket.create_server((meeting.address, meeting.port)) as other:
        done = following(meeting, tmp_path)
        connected, _ = other.accept()
        with connected:
            connected.sendall(b"220 mail.example.org ESMTP ready and waiting for you all\r\n")
            with pytest.raises(TuneError, match="--meet HOST:PORT names another place"):
                done.result(20)


def test_hosts_with_one_secret_understand_each_other() -> None:
    with met(key_of("a"), key_of("a")) as (lead, mine, follows, theirs):
        SignedConnection(lead, mine).send(StopJob())
        SignedConnection(follows, theirs).send(Hello("h", 1, ["x"], "1"))
        assert next(SignedConnection(follows, theirs).come(5.0)) == StopJob()
        assert next(SignedConnection(lead, mine).come(5.0)) == Hello("h", 1, ["x"], "1")


def test_hosts_with_two_secrets_do_not() -> None:
    with pytest.raises(Stranger), met(key_of("a"), key_of("b")):
        pass


def framed(signed: Signed, *messages: Said) -> list[bytes]:
    """What a line would send, message by message."""
    one, other = pair()
    with one, other:
        line, found = SignedConnection(one, signed), []
        for message in messages:
            line.send(message)
            found.append(other.recv(1 << 16))
        return found


@pytest.mark.parametrize(
    "changed",
    [
        lambda one, two: one[:-1] + bytes([one[-1] ^ 1]),
        lambda one, two: one[:4] + bytes(32) + one[36:],
        lambda one, two: two,  # the first left out
        lambda one, two: one + one,  # doubled
        lambda one, two: (1 << 31).to_bytes(4, "big") + one[4:],
    ],
    ids=["changed", "unsigned", "left out", "doubled", "endless"],
)
def test_what_was_changed_on_its_way_is_refused(changed: Callable[[bytes, bytes], bytes]) -> None:
    with met(key_of("a"), key_of("a")) as (lead, mine, follows, theirs):
        one, two = framed(mine, StopJob(), Begin("trial-1", "/", {}))
        lead.sendall(changed(one, two))
        with pytest.raises(Lost):
            list(SignedConnection(follows, theirs).come(5.0))


def test_what_a_host_said_is_not_taken_when_it_is_sent_back_to_it() -> None:
    with met(key_of("a"), key_of("a")) as (lead, mine, follows, _):
        (said,) = framed(mine, StopJob())
        follows.sendall(said)
        with pytest.raises(Lost, match="is not from it"):
            list(SignedConnection(lead, mine).come(5.0))


def test_a_host_that_follows_takes_only_our_variables_and_stays_in_its_folder(
    meeting: Meeting, tmp_path: Path
) -> None:
    seen: list[Process] = []

    def place(process: Process, watching: Watching) -> Ran:
        seen.append(process)
        return runs(process, watching)

    done = following(meeting, tmp_path, place)
    with gathered(meeting, COMMAND, print) as hosts:
        line = hosts.hosts[0].line
        line.send(Begin("trial-1", "/there", {"LD_PRELOAD": "x.so", "PACELINE_TITLE": "/there/a"}))
        line.send(Begin("../elsewhere", "/there", {}))
        with pytest.raises(TuneError, match="outside of the loop's folder"):
            done.result(20)
    (given,) = (process.environment for process in seen)
    assert given is not None
    assert "LD_PRELOAD" not in given
    assert given["PACELINE_TITLE"] == f"{tmp_path}/a"


def test_the_secret_comes_from_the_environment_and_is_not_shown() -> None:
    words = "torchrun --nnodes 2 --rdzv-id 7 --rdzv-endpoint a:100 train.py".split()
    found = meeting_of(words, {"PACELINE_SECRET": "hush"})
    guessed = meeting_of(words, {})
    assert found is not None
    assert guessed is not None
    assert (found.secret, found.job) == ("hush", "7")
    assert "hush" not in repr(found)
    assert found.key != guessed.key == replace(guessed, number=1, address="b").key
    assert guessed.key != replace(guessed, job="8").key
