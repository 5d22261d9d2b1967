"""What tests of replay share: a stretch without the native core."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from paceline.engine import native, replaying, webassembly

NoCore = Callable[[], AbstractContextManager[None]]


@pytest.fixture(scope="session")
def without_core() -> NoCore:
    """Within it nothing finds the native core, whose presence is otherwise remembered."""
    return _without_core


@contextmanager
def _without_core() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PACELINE_ENGINE", "python")
        native.cache_clear()
        webassembly.cache_clear()
        assert replaying() is None
        try:
            yield
        finally:
            patch.undo()
            native.cache_clear()
            webassembly.cache_clear()
