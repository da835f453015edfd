"""Check a description against the kernel that PyTorch runs.

Three things must hold on any inputs, and all are checked by running the kernel itself:

1. `reference`, which knows the description alone, gives what the kernel gives;
2. so does the kernel run on the regions of a split's parts, and joined as the split says: the same
   values, NaN included, of the same dtype;
3. where the operator is said to be linear in arguments, it adds up: op(a1 + a2) = op(a1) + op(a2).

Of a random operator only the types are checked, of the whole and of every part: PyTorch's kernels
draw from a stream, so that their parts draw other numbers than the whole. What runs a plan draws by
position (see `describe.expression.Random`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch

from graphwright.aten import call_checked, call_kernel, complete_call, tensor_type
from graphwright.describe import (
    Description,
    Split,
    Types,
    linear_sets,
    local_types,
    reference_of,
    require,
    splits_of,
    trace,
)
from graphwright.errors import WrongDescription
from graphwright.ir import Attr
from graphwright.run.check.parts import (
    Inputs,
    is_small,
    join_parts,
    run_part,
    to_numpy,
    tolerance_of,
)


def check_operator(
    op: str,
    attrs: Mapping[str, Attr],
    inputs: Inputs,
    *,
    description: Description | None = None,
    num_parts: Sequence[int] = (2, 3, 4),
    tolerance: float | None = None,
    values: bool = True,
) -> tuple[Split, ...]:
    """Raise `WrongDescription` unless `op` is described truly for this call; the splits checked.

    Attributes with a default may be left out. `tolerance` is relative to the largest output; if not
    given, it is that of the least precise dtype in the call: 1e-9 for float64, 1e-4 for float32,
    2e-2 for half precision. A wrong description shows most clearly in float64. Without `values` the
    description is not evaluated element by element, which takes long on larger inputs. A call that
    the operator does not take is an `InvalidCall`.
    """
    description = description or require(op)
    attrs, inputs = complete_call(op, attrs, inputs)
    inputs = [t.detach() if isinstance(t, torch.Tensor) else t for t in inputs]
    outputs = call_checked(op, inputs, attrs)
    if tolerance is None:
        given = (t for t in inputs if t is not None and t.dtype.itemsize > 1)  # 8 bits are exact
        tolerance = tolerance_of(*given, *outputs)
    call = _Call(op, attrs, inputs, outputs, tolerance)
    types = types_of(inputs, call.outputs)
    derived = splits_of(description, attrs, types)
    traced = trace(description, attrs, types)
    if values and not traced.random:
        arrays = [None if t is None else to_numpy(t) for t in inputs]
        evaluated = reference_of(description, _without_half(attrs), arrays, types)
        made = [
            torch.from_numpy(a.copy()).to(out) for a, out in zip(evaluated, outputs, strict=True)
        ]
        call.compare("by its description", made)
    for split in derived:
        for cuts in cut_positions(split, num_parts):
            results = call.run_parts(split, cuts)
            if not traced.random:
                where = f"from parts along {split.index} cut at {cuts}"
                call.compare(where, join_parts(split.joins, results))
    if traced.random:
        return derived
    for arguments in linear_sets(traced):
        added = [t for t in (inputs[a] for a in arguments) if t is not None]
        if not all(t.isfinite().all() for t in added):
            continue  # infinities do not add up
        call.compare(
            f"as a sum, being linear in arguments {sorted(arguments)},", call.added(arguments)
        )
    return derived


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of an operator with its outputs, to compare others with."""

    op: str
    attrs: Mapping[str, Attr]
    inputs: Inputs
    outputs: tuple[torch.Tensor, ...]
    tolerance: float

    def compare(self, how: str, outputs: Sequence[torch.Tensor]) -> None:
        for number, (want, got) in enumerate(zip(self.outputs, outputs, strict=True)):
            alike = (got.shape, got.dtype) == (want.shape, want.dtype)
            if not alike or not self.close(got, want):
                shapes = ", ".join(
                    "absent" if t is None else str(tensor_type(t)) for t in self.inputs
                )
                raise WrongDescription(
                    f"{self.op}: output {number} {how} differs from the kernel's, for {shapes} and "
                    f"{dict(self.attrs)}:\n{got}\nagainst\n{want}"
                )

    def run_parts(self, split: Split, cuts: Sequence[int]) -> list[tuple[torch.Tensor, ...]]:
        """What the kernel makes of every part: tensors of the part's own types, or an error."""
        results: list[tuple[torch.Tensor, ...]] = []
        for lo, end in pairwise(cuts):
            part = split.part(lo, end)
            try:
                made = run_part(split, part, self.inputs)
            except (RuntimeError, IndexError) as error:
                raise WrongDescription(
                    f"{self.op}: the kernel refuses a part along {split.index} cut at {cuts}, "
                    f"[{lo}, {end}): {error}"
                ) from error
            wanted = local_types(split, part).outputs
            if (got := tuple(map(tensor_type, made))) != wanted:
                raise WrongDescription(
                    f"{self.op}: a part along {split.index}, [{lo}, {end}), has the types {got}, "
                    f"not {wanted}"
                )
            results.append(made)
        return results

    def close(self, got: torch.Tensor, want: torch.Tensor) -> bool:
        """Alike to the tolerance; whole numbers and truth values are the same, or not."""
        if not (want.is_floating_point() or want.is_complex()):
            return torch.equal(got, want)
        if want.dtype.itemsize == 1:
            got, want = got.float(), want.float()
        finite = want[want.isfinite()].abs()
        scale = max(1.0, finite.max().item()) if finite.numel() else 1.0
        return torch.allclose(
            got, want, rtol=self.tolerance, atol=self.tolerance * scale, equal_nan=True
        )

    def added(self, arguments: frozenset[int]) -> list[torch.Tensor]:
        """The sum of the outputs for two halves of the arguments."""
        halves: list[list[torch.Tensor | None]] = [[], []]
        for position, tensor in enumerate(self.inputs):
            if tensor is None or position not in arguments:
                pair = (tensor, tensor)
            else:
                count = torch.arange(tensor.numel(), device=tensor.device)
                share = count.reshape(tensor.shape) % 3 * 0.25 + 0.25
                first = (tensor * share).to(tensor.dtype)
                pair = (first, tensor - first)
            for half, piece in zip(halves, pair, strict=True):
                half.append(piece)
        made = [call_kernel(self.op, half, self.attrs) for half in halves]
        return [a + b for a, b in zip(*made, strict=True)]


def cut_positions(split: Split, num_parts: Sequence[int]) -> list[tuple[int, ...]]:
    """Balanced and deliberately uneven cuts."""
    cuts: list[tuple[int, ...]] = []
    for count in num_parts:
        if count <= split.max_parts:
            cuts.append(split.cuts(count))
            if split.max_parts > count:  # the first part takes all that the others can spare
                sizes = [split.max_parts - count + 1] + [1] * (count - 1)
                uneven = [min(split.extent, n * split.quantum) for n in accumulate(sizes)]
                cuts.append((0, *uneven))
    return list(dict.fromkeys(cuts))


def types_of(inputs: Inputs, outputs: Sequence[torch.Tensor]) -> Types:
    """The types of a call that was made."""
    return Types(
        tuple(None if t is None else tensor_type(t) for t in inputs),
        tuple(tensor_type(t) for t in outputs),
    )


def _without_half(attrs: Mapping[str, Attr]) -> dict[str, Attr]:
    """NumPy computes in single precision where the kernel does so inside, and rounds its result."""
    return {k: "float32" if isinstance(v, str) and is_small(v) else v for k, v in attrs.items()}
