"""Tell a user's code from library code, so that messages can name the line of the user's program.

~/train.py, timm/models/vit.py, graphwright/zoo/lenet.py, <stdin>                  user code
graphwright/run/step.py, torch/nn/modules/linear.py, contextlib.py, <string>       library code
"""

from __future__ import annotations

import os
import sysconfig
from functools import cache
from importlib.util import find_spec

_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_ZOO = os.path.join(_OURS, "zoo") + os.sep
"""Zoo models count as user code."""
_TYPED = ("<stdin>", "<python-input", "<ipython-input")
_INSTALLED = ("site-packages", "dist-packages")


def is_users(file: str) -> bool:
    """Whether `file` is user code: not Graphwright's, PyTorch's or Python's, and not generated."""
    if file.startswith("<"):
        return file.startswith(_TYPED)
    if file.startswith((_OURS, *_torch())):
        return file.startswith(_ZOO)
    inside = file.removeprefix(_python())
    return inside == file or inside.startswith(_INSTALLED)


@cache
def _torch() -> tuple[str, ...]:
    torch = find_spec("torch")
    folders = torch.submodule_search_locations if torch else None
    return tuple(os.path.join(folder, "") for folder in folders or ())


@cache
def _python() -> str:
    return os.path.join(sysconfig.get_path("stdlib"), "")
