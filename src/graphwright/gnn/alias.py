"""Code written for DGL runs unchanged after one line:

    sys.modules["dgl"] = graphwright.gnn

The import system would otherwise load a second copy of `dgl.function` from this package's folder,
with classes of its own. So importing the package adds a finder that answers for every module under
an alias of it, `dgl.nn` as `graphwright.gnn.nn`, and for DGL's finer division: `dgl.nn.pytorch` and
`dgl.nn.pytorch.conv` are `graphwright.gnn.nn` as well.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

_HOMES = {
    "base": "storage", "init": "storage", "convert": "graph",
    "nn.conv": "nn", "nn.factory": "nn", "nn.glob": "nn", "nn.hetero": "nn", "nn.linear": "nn",
    "nn.link": "nn", "nn.softmax": "nn", "nn.utils": "nn", "readout": "graph",
    "subgraph": "graph", "udf": "graph", "utils": "nn",
    "propagate": "sampling", "random": "sampling", "traversal": "sampling.traversal",
}  # fmt: skip
"""Modules of DGL whose names are offered by another one here."""


class _Finder(MetaPathFinder):
    """Finds modules under any other name of a package."""

    def __init__(self, package: str) -> None:
        self.package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        alias, _, rest = fullname.partition(".")
        module = sys.modules.get(alias)
        if not rest or alias == self.package or getattr(module, "__name__", None) != self.package:
            return None
        rest = rest.replace(".pytorch", "")
        real = f"{self.package}.{_HOMES.get(rest, rest)}"
        return ModuleSpec(fullname, _Loader(real)) if find_spec(real) is not None else None


class _Loader(Loader):
    """Gives the module that is there already."""

    def __init__(self, real: str) -> None:
        self.real = real
        self.spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.real)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has set the alias's


def install(package: str) -> None:
    """Let modules of a package be imported under any name that `sys.modules` gives it."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(package))
