"""Element-wise special functions, defined by SciPy."""

from __future__ import annotations

from graphwright.describe.language import Array, Int, Opaque, Tensor, describe


def _from_scipy(name: str) -> Opaque:
    def run(*args: Array) -> Array:
        import scipy.special

        value: Array = getattr(scipy.special, name)(*args)
        return value

    return Opaque(name, run)


def _describe_special(op: str, name: str) -> None:
    describe(op)(lambda x: lambda *i: _from_scipy(name)(x[i])[()])


_describe_special("aten.i0", "i0")
_describe_special("aten.special_i0e", "i0e")
_describe_special("aten.special_i1", "i1")
_describe_special("aten.special_i1e", "i1e")


@describe("aten.polygamma")
def polygamma(x: Tensor, *, n: Int):
    return lambda *i: _from_scipy("polygamma")(n, x[i])[()]
