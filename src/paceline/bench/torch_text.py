"""Text to learn: the sources of Python's own standard library, as bytes.

They are on every machine and in no package; another version of Python is slightly other text.
"""

import sysconfig
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

BYTES: Final = 256
_TRAINED: Final = ("argparse", "ast", "calendar", "configparser", "datetime", "difflib", "doctest",
                   "enum", "functools", "inspect", "optparse", "pathlib", "pdb", "pickle",
                   "shutil", "socket", "statistics", "subprocess", "tarfile", "threading",
                   "turtle", "typing", "uuid", "zipfile")  # fmt: skip
_TESTED: Final = ("heapq", "textwrap", "random", "tempfile")


def text(tested: bool = False) -> Tensor:
    """All of it in a row; files whose module is a folder in this Python are left out."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    files = [folder / f"{name}.py" for name in (_TESTED if tested else _TRAINED)]
    whole = b"".join(file.read_bytes() for file in files if file.exists())
    return torch.frombuffer(bytearray(whole), dtype=torch.uint8).long()


def windows(whole: Tensor, length: int, apart: int) -> Tensor:
    """Pieces of one more than the length, which begin so far apart from one another."""
    return whole.unfold(0, length + 1, apart)
