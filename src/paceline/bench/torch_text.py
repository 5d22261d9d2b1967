"""Text to learn: the sources of Python's own standard library, as bytes.

They are on every machine and in no package; another version of Python is slightly other text.
"""

import sysconfig
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

BYTES: Final = 256
_MODULES: Final = ("argparse", "ast", "calendar", "configparser", "datetime", "difflib", "doctest",
                   "enum", "functools", "inspect", "optparse", "pathlib", "pdb", "pickle",
                   "shutil", "socket", "statistics", "subprocess", "tarfile", "threading",
                   "turtle", "typing", "uuid", "zipfile")  # fmt: skip
_BLOCK: Final = 4096
_TESTED: Final = 16  # every so manieth block is not trained on


def text(tested: bool = False) -> Tensor:
    """Blocks of all of it in a row; files whose module is a folder in this Python are left out."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    files = [folder / f"{name}.py" for name in _MODULES]
    whole = b"".join(file.read_bytes() for file in files if file.exists())
    blocks = torch.frombuffer(bytearray(whole), dtype=torch.uint8).long().split(_BLOCK)
    return torch.cat([b for at, b in enumerate(blocks) if (at % _TESTED == 0) == tested])


def windows(whole: Tensor, length: int, apart: int) -> Tensor:
    """Pieces of one more than the length, which begin so far apart from one another."""
    return whole.unfold(0, length + 1, apart)
