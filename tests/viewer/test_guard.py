"""Who may ask the server of `paceline view`."""

import pytest

from paceline.viewer import Guard

GUARD = Guard("secret", 4711)


@pytest.mark.parametrize("host", ["127.0.0.1:4711", "localhost:4711", "[::1]:4711"])
def test_its_own_pages_may_ask(host: str) -> None:
    assert GUARD.refusal("/secret/0/", {"Host": host}) == ""
    assert GUARD.refusal("/secret/0/", {"Host": host, "Origin": f"http://{host}"}) == ""


@pytest.mark.parametrize(
    ("path", "headers", "reason"),
    [
        ("/secret/0/", {"Host": "evil.example:4711"}, "own name"),
        ("/secret/0/", {"Host": "127.0.0.1:4712"}, "own name"),
        ("/secret/0/", {}, "own name"),
        ("/secret/0/", {"Host": "127.0.0.1:4711", "Origin": "http://evil.example"}, "own pages"),
        ("/secret/0/", {"Host": "127.0.0.1:4711", "Origin": "null"}, "own pages"),
        ("/0/", {"Host": "127.0.0.1:4711"}, "token"),
        ("/secre/0/", {"Host": "127.0.0.1:4711"}, "token"),
        ("/secret\u00e9/", {"Host": "127.0.0.1:4711"}, "token"),
    ],
)
def test_nobody_else_may(path: str, headers: dict[str, str], reason: str) -> None:
    assert reason in GUARD.refusal(path, headers)
