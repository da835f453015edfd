"""Whose code a file holds: of a failure or of a wait, users are told the line of their own program that led to it.

~/train.py, timm/models/vit.py, graphwright/zoo/lenet.py, <stdin>                  a user's
graphwright/run/step.py, torch/nn/modules/linear.py, contextlib.py, <string>       not
"""

from __future__ import annotations

import os
import sysconfig
from functools import cache
from importlib.util import find_spec

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_ZOO = os.path.join(_OURS, "zoo") + os.sep
"""Its models are to the rest what a user's are."""
_TYPED = ("<stdin>", "<python-input", "<ipython-input")
_INSTALLED = ("site-packages", "dist-packages")


def is_users(file: str) -> bool:
    """Whether a frame of this file is the user's: neither ours, nor PyTorch's, nor Python's, nor generated."""
    if file.startswith("<"):
        return file.startswith(_TYPED)
    if file.startswith((_OURS, *_torch())):
        return file.startswith(_ZOO)
    inside = file.removeprefix(_python())
    return inside == file or inside.startswith(_INSTALLED)


@cache
def _torch() -> tuple[str, ...]:
    found = find_spec("torch")
    return (
        tuple(os.path.join(folder, "") for folder in found.submodule_search_locations or ())
        if found
        else ()
    )


@cache
def _python() -> str:
    return os.path.join(sysconfig.get_path("stdlib"), "")
