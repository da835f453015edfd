"""Element types: NumPy's own, and what the standard asks about them."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.arrays.array import Array, asarray, cast, duplicate

DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64", "complex64", "complex128",
    )
}  # fmt: skip
CONSTANTS = {"e": np.e, "inf": np.inf, "nan": np.nan, "pi": np.pi, "newaxis": None}


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: str | None = None) -> Array:
    """The same elements in another dtype."""
    if device not in (None, "cpu"):
        raise ValueError(f"no device {device!r}; arrays are on 'cpu'")
    given = asarray(x)
    made = cast(given, dtype)
    return duplicate(made) if copy and made is given else made


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a dtype can become another one without loss."""
    return bool(np.can_cast(from_.dtype if isinstance(from_, Array) else from_, to))


class FloatInfo:
    """The limits of a floating-point dtype: NumPy's, as numbers of Python."""

    def __init__(self, dtype: Any) -> None:
        self._numpy = np.finfo(dtype)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._numpy, name)
        return float(value) if isinstance(value, np.floating) else value

    def __repr__(self) -> str:
        return repr(self._numpy)


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating-point dtype."""
    return FloatInfo(type.dtype if isinstance(type, Array) else type)


def iinfo(type: Any, /) -> Any:
    """The limits of an integer dtype."""
    return np.iinfo(type.dtype if isinstance(type, Array) else type)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind, such as "integral"."""
    return bool(np.isdtype(np.dtype(dtype), kind))


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype that arrays, dtypes and numbers have together."""
    return np.result_type(*(x.dtype if isinstance(x, Array) else x for x in arrays_and_dtypes))


class NamespaceInfo:
    """What the standard's inspection functions ask about this namespace."""

    def capabilities(self) -> dict[str, Any]:
        """What is there beyond what every implementation has."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Where arrays are."""
        return "cpu"

    def devices(self) -> list[str]:
        """Where arrays can be."""
        return ["cpu"]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, np.dtype[Any]]:
        """The dtypes that are taken where none is given."""
        names = {"real floating": "float64", "complex floating": "complex128"}
        names |= {"integral": "int64", "indexing": "int64"}
        return {kind: DTYPES[name] for kind, name in names.items()}

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype[Any]]:
        """The dtypes of a kind, or all."""
        standard = {name: dtype for name, dtype in DTYPES.items() if name != "float16"}
        return {n: d for n, d in standard.items() if kind is None or np.isdtype(d, kind)}


def namespace_info() -> NamespaceInfo:
    """What this namespace offers."""
    return NamespaceInfo()


FUNCTIONS = {
    "astype": astype, "can_cast": can_cast, "finfo": finfo, "iinfo": iinfo, "isdtype": isdtype,
    "result_type": result_type, "__array_namespace_info__": namespace_info,
}  # fmt: skip
