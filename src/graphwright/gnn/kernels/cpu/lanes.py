"""Vector instructions and prefetching in compiled functions, over flat arrays.

    prefetch(a, i)            ask for the memory of a[i] before it is needed
    copy8(out, o, a, i)       out[o:o+8] += a[i:i+8]
    scale8(out, o, a, i, y)   out[o:o+8] += a[i:i+8] * y
    times8(out, o, a, i, b, j)  out[o:o+8] += a[i:i+8] * b[j:j+8]
    dot8(a, i, b, j)          the sum of a[i:i+8] * b[j:j+8]
    more8(out, o, w, a, i, n)   where a[i:i+8] is more than out[o:o+8], it takes its place, and
                              w[o:o+8] is n; less8 is for less
    most8(out, o, a, i)       the same without w; least8 is for less
    sum8(out, o, a, i, b, j)  out[o:o+8] = a[i:i+8] + b[j:j+8]; difference8, product8, quotient8

Rows of features are read in the order of edges, which is random: without prefetching, each waits
for memory in turn. Numba vectorises long loops alone, and the run of one attention head has 8 to
64 numbers. Indices are unsigned: a signed one may count from the end, and that check takes time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_CODE: Any = cgutils
_IR: Any = ir
_TYPES: Any = types
_WIDTH = 8
_NUMBER: Any = _IR.IntType(32)
_written = cast(Callable[[Callable[..., Any]], Callable[..., Any]], intrinsic)
_MAY_FUSE = ("contract", "nsz", "reassoc")


class _Writer:
    """Writes LLVM code for one call of an intrinsic."""

    def __init__(self, context: Any, builder: Any, signature: Any) -> None:
        self.context, self.builder, self.signature = context, builder, signature
        kind = signature.args[0].dtype
        self.floating = isinstance(kind, types.Float)
        self.element = context.get_data_type(kind)
        self.align = kind.bitwidth // 8
        self.vector = _IR.VectorType(self.element, _WIDTH)

    def place(self, which: int, values: Any) -> Any:
        array = self.context.make_array(self.signature.args[which])(
            self.context, self.builder, values[which]
        )
        pointer = self.builder.gep(array.data, [values[which + 1]])
        return self.builder.bitcast(pointer, self.vector.as_pointer())

    def load(self, place: Any) -> Any:
        return self.builder.load(place, align=self.align)

    def store(self, value: Any, place: Any) -> None:
        self.builder.store(value, place, align=self.align)

    def spread(self, number: Any) -> Any:
        empty = _IR.Constant(_IR.VectorType(number.type, _WIDTH), _IR.Undefined)
        first = self.builder.insert_element(empty, number, _NUMBER(0))
        mask = _IR.Constant(_IR.VectorType(_NUMBER, _WIDTH), [0] * _WIDTH)
        return self.builder.shuffle_vector(first, empty, mask)

    def add(self, x: Any, y: Any) -> Any:
        if self.floating:
            return self.builder.fadd(x, y, flags=_MAY_FUSE)
        return self.builder.add(x, y)

    def multiply(self, x: Any, y: Any) -> Any:
        if self.floating:
            return self.builder.fmul(x, y, flags=_MAY_FUSE)
        return self.builder.mul(x, y)

    def is_better(self, x: Any, old: Any, sign: str) -> Any:
        """Where x beats the old one: by `sign`, or as it is no number."""
        if not self.floating:
            signed = self.signature.args[0].dtype.signed
            compare = self.builder.icmp_signed if signed else self.builder.icmp_unsigned
            return compare(sign, x, old)
        beats = self.builder.fcmp_ordered(sign, x, old)
        return self.builder.or_(beats, self.builder.fcmp_unordered("uno", x, x))

    def total(self, vector: Any) -> Any:
        """The sum of all lanes, by halves."""
        for half in (4, 2, 1):
            size = _IR.VectorType(_NUMBER, half)
            low = _IR.Constant(size, list(range(half)))
            high = _IR.Constant(size, list(range(half, 2 * half)))
            vector = self.add(
                self.builder.shuffle_vector(vector, vector, low),
                self.builder.shuffle_vector(vector, vector, high),
            )
        return self.builder.extract_element(vector, _NUMBER(0))


@_written
def prefetch(context: Any, array: Any, index: Any) -> Any:
    """Fetch the line of an element of a flat array."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer = _IR.IntType(8).as_pointer()
        data = context.make_array(signature.args[0])(context, builder, values[0]).data
        place = builder.bitcast(builder.gep(data, [values[1]]), pointer)
        kind = _IR.FunctionType(_IR.VoidType(), [pointer, _NUMBER, _NUMBER, _NUMBER])
        function = _CODE.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [place, _NUMBER(0), _NUMBER(3), _NUMBER(1)])  # to read and keep
        return context.get_dummy_value()

    return _TYPES.void(array, index), codegen


@_written
def copy8(context: Any, out: Any, o: Any, a: Any, i: Any) -> Any:
    """Add eight numbers to eight others."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        write = _Writer(context, builder, signature)
        place = write.place(0, values)
        write.store(write.add(write.load(place), write.load(write.place(2, values))), place)
        return context.get_dummy_value()

    return _TYPES.void(out, o, a, i), codegen


@_written
def scale8(context: Any, out: Any, o: Any, a: Any, i: Any, y: Any) -> Any:
    """Add eight numbers times one to eight others."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        write = _Writer(context, builder, signature)
        place = write.place(0, values)
        scaled = write.multiply(write.load(write.place(2, values)), write.spread(values[4]))
        write.store(write.add(write.load(place), scaled), place)
        return context.get_dummy_value()

    return _TYPES.void(out, o, a, i, y), codegen


@_written
def times8(context: Any, out: Any, o: Any, a: Any, i: Any, b: Any, j: Any) -> Any:
    """Add the products of two times eight numbers to eight others."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        write = _Writer(context, builder, signature)
        place = write.place(0, values)
        products = write.multiply(
            write.load(write.place(2, values)), write.load(write.place(4, values))
        )
        write.store(write.add(write.load(place), products), place)
        return context.get_dummy_value()

    return _TYPES.void(out, o, a, i, b, j), codegen


@_written
def dot8(context: Any, a: Any, i: Any, b: Any, j: Any) -> Any:
    """The sum of the products of two times eight numbers."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        write = _Writer(context, builder, signature)
        products = write.multiply(
            write.load(write.place(0, values)), write.load(write.place(2, values))
        )
        return write.total(products)

    return a.dtype(a, i, b, j), codegen


def _extreme8(sign: str) -> Any:
    @_written
    def better8(context: Any, out: Any, o: Any, w: Any, a: Any, i: Any, n: Any) -> Any:
        """Eight numbers take the place of others that they beat."""

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            write = _Writer(context, builder, signature)
            place, x = write.place(0, values), write.load(write.place(3, values))
            old = write.load(place)
            better = write.is_better(x, old, sign)
            write.store(builder.select(better, x, old), place)
            kind = signature.args[2].dtype
            numbers = context.make_array(signature.args[2])(context, builder, values[2])
            at = builder.bitcast(
                builder.gep(numbers.data, [values[1]]),
                _IR.VectorType(context.get_data_type(kind), _WIDTH).as_pointer(),
            )
            align = kind.bitwidth // 8
            chosen = builder.select(better, write.spread(values[5]), builder.load(at, align=align))
            builder.store(chosen, at, align=align)
            return context.get_dummy_value()

        return _TYPES.void(out, o, w, a, i, n), codegen

    return better8


more8, less8 = _extreme8(">"), _extreme8("<")


def _keep8(sign: str) -> Any:
    @_written
    def kept8(context: Any, out: Any, o: Any, a: Any, i: Any) -> Any:
        """Eight numbers take the place of others that they beat."""

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            write = _Writer(context, builder, signature)
            place, x = write.place(0, values), write.load(write.place(2, values))
            old = write.load(place)
            write.store(builder.select(write.is_better(x, old, sign), x, old), place)
            return context.get_dummy_value()

        return _TYPES.void(out, o, a, i), codegen

    return kept8


most8, least8 = _keep8(">"), _keep8("<")


def _put8(operation: str) -> Any:
    @_written
    def made8(context: Any, out: Any, o: Any, a: Any, i: Any, b: Any, j: Any) -> Any:
        """Eight numbers are set to what two times eight make."""

        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            write = _Writer(context, builder, signature)
            x, y = write.load(write.place(2, values)), write.load(write.place(4, values))
            write.store(getattr(builder, operation)(x, y), write.place(0, values))
            return context.get_dummy_value()

        return _TYPES.void(out, o, a, i, b, j), codegen

    return made8


sum8, difference8, product8, quotient8 = map(_put8, ("fadd", "fsub", "fmul", "fdiv"))
"""For floating-point numbers alone."""
