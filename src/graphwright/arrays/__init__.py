"""Distributed arrays that tile themselves (Spartan): a NumPy program, one import changed.

    import graphwright.arrays as ga

    x = ga.random.default_rng(0).normal(size=(2_000_000, 32))
    y = (x - x.mean(axis=0)) / x.std(axis=0)
    print(y.T @ y)                    # computed here, in one go, on all workers

The namespace follows the Python array API standard, version 2024.12, with its linalg and fft
extensions, and has the names of NumPy besides. Nothing is computed until a value is needed; then
the whole program so far is planned at once, so that as little as possible goes between workers.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from types import SimpleNamespace

import numpy as _np

from graphwright.arrays.array import Array
from graphwright.arrays.errors import ArrayError
from graphwright.arrays.evaluate import SETTINGS as _SETTINGS
from graphwright.arrays.expression import Expression as _Expression
from graphwright.arrays.expression import Output as _Output
from graphwright.arrays.methods import install as _install
from graphwright.arrays.namespace import creation as _creation
from graphwright.arrays.namespace import dtypes as _dtypes
from graphwright.arrays.namespace import elementwise as _elementwise
from graphwright.arrays.namespace import fft as _fft
from graphwright.arrays.namespace import highlevel as _highlevel
from graphwright.arrays.namespace import indexing as _indexing
from graphwright.arrays.namespace import linalg as _linear
from graphwright.arrays.namespace import random as _random
from graphwright.arrays.namespace import reductions as _reductions
from graphwright.arrays.namespace import searching as _searching
from graphwright.arrays.namespace import shapes as _shapes
from graphwright.arrays.numpy_calls import Namespace as _Namespace
from graphwright.arrays.numpy_calls import as_numpy_all as _as_numpy_all
from graphwright.arrays.numpy_calls import from_numpy as _from_numpy

__array_api_version__ = "2024.12"
linalg = _Namespace(_linear.LINALG, _np.linalg, "linalg")
fft = _Namespace(_fft.FUNCTIONS, _np.fft, "fft")
random = SimpleNamespace(**_random.FUNCTIONS)
ndarray = Array

_ROOMS = (
    _elementwise, _shapes, _indexing, _reductions, _creation, _dtypes, _linear, _searching,
    _highlevel,
)  # fmt: skip
_NAMES: dict[str, object] = {}
for _room in _ROOMS:
    _NAMES |= _as_numpy_all(_room.FUNCTIONS, _np)
_NAMES |= {**_dtypes.DTYPES, **_dtypes.CONSTANTS}
globals().update(_NAMES)

_RUNNING = {
    "checkpoint": "exchange", "compute": "exchange", "connect": "session",
    "disconnect": "session", "explain": "explain", "from_dask": "exchange", "from_file": "exchange",
    "load": "exchange", "persist": "exchange", "resume": "exchange", "save": "exchange",
    "savez": "exchange", "to_dask": "exchange", "use_workers": "session",
}  # fmt: skip
"""What needs Dask or the planner, which are loaded with it, and where it is."""

__all__ = ["Array", "ArrayError", "fft", "linalg", "ndarray", "random"]
__all__ += sorted({*_NAMES, *_RUNNING})


def __getattr__(name: str) -> object:
    if name in _RUNNING:
        return getattr(import_module(f"graphwright.arrays.running.{_RUNNING[name]}"), name)
    return _from_numpy(name, _np, __name__)


def __dir__() -> list[str]:
    return sorted(__all__)


def _distribute(outputs: Sequence[_Output], order: Sequence[_Expression]) -> None:
    """The first large program loads what it takes to run it."""
    import_module("graphwright.arrays.running.session").install()
    assert _SETTINGS.distribute is not None
    _SETTINGS.distribute(outputs, order)


_SETTINGS.distribute = _distribute
_install(sys.modules[__name__])
