"""Shapes: views, cuts, joins, indices and tensors made of sizes."""

from __future__ import annotations

from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from graphwright.capture.onnx.operators.table import Call, operator

Number = int | float


@operator("Reshape", static=(1,))
def reshape(call: Call, x: Tensor, shape: list[int]) -> Tensor:
    """Size 0 is that of the same dim, unless `allowzero`."""
    if not call.whole("allowzero"):
        shape = [x.shape[d] if size == 0 else size for d, size in enumerate(shape)]
    return x.reshape(shape)


@operator("Flatten")
def flatten(call: Call, x: Tensor) -> Tensor:
    axis = call.whole("axis", 1) if x.dim() else 0
    return x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))


@operator("Transpose")
def transpose(call: Call, x: Tensor) -> Tensor:
    return x.permute(call.ints("perm") or list(range(x.dim()))[::-1])


@operator("Squeeze", static=(1,))
def squeeze(call: Call, x: Tensor, axes: list[int] | None = None) -> Tensor:
    """Axes are an attribute before version 13."""
    axes = call.ints("axes") or axes
    if axes is None:
        axes = [d for d, size in enumerate(x.shape) if size == 1]
    gone = {axis % x.dim() for axis in axes}
    if any(x.shape[d] != 1 for d in gone):
        raise ValueError(f"axes {sorted(gone)} are not all of size 1")
    return x.reshape([size for d, size in enumerate(x.shape) if d not in gone])


@operator("Unsqueeze", static=(1,))
def unsqueeze(call: Call, x: Tensor, axes: list[int] | None = None) -> Tensor:
    """Axes are an attribute before version 13."""
    axes = call.ints("axes") or axes or []
    rank = x.dim() + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


@operator("Concat")
def concat(call: Call, *parts: Tensor) -> Tensor:
    return torch.cat(parts, call.whole("axis"))


@operator("Split", static=(1,))
def split(call: Call, x: Tensor, sizes: list[int] | None = None) -> tuple[Tensor, ...]:
    """Sizes are an attribute before version 13; without them, parts are alike but the last."""
    axis = call.whole("axis")
    sizes = call.ints("split") or sizes
    if sizes is None:
        count = call.whole("num_outputs", call.num_outputs)
        size = -(-x.shape[axis] // count)
        sizes = [size] * (count - 1)
        sizes.append(x.shape[axis] - sum(sizes))
    return torch.split(x, sizes, axis)


@operator("Slice", static=(1, 2, 3, 4))
def slices(
    call: Call,
    x: Tensor,
    starts: list[int] | None = None,
    ends: list[int] | None = None,
    axes: list[int] | None = None,
    steps: list[int] | None = None,
) -> Tensor:
    """Everything is an attribute before version 10."""
    starts, ends = starts or call.ints("starts"), ends or call.ints("ends")
    axes = axes or call.ints("axes") or list(range(len(starts)))
    for axis, start, end, step in zip(axes, starts, ends, steps or [1] * len(axes), strict=True):
        places = _places(x.shape[axis], start, end, step)
        if step == 1:
            x = x.narrow(axis, places.start, len(places))
        elif step > 1:
            rest = x.narrow(axis, places.start, places[-1] + 1 - places.start if places else 0)
            x = rest[(slice(None),) * (axis % x.dim()) + (slice(None, None, step),)]
        else:
            x = x.index_select(axis, torch.tensor(list(places), dtype=torch.int64))
    return x


_TO_THE_END = (2**31 - 1, 2**63 - 1)
"""As an end these mean none, also backwards."""


def _places(size: int, start: int, end: int, step: int) -> range:
    """What a slice takes: unlike Python's, one backwards from before the first takes that one."""
    lowest, last = (0, size) if step > 0 else (-1, size - 1)
    start, end = (place + size if place < 0 else place for place in (start, end))
    if step < 0 and end in _TO_THE_END:
        end = -1
    return range(min(max(start, 0), last), min(max(end, lowest), last), step)


@operator("Expand", static=(1,))
def expand(call: Call, x: Tensor, shape: list[int]) -> Tensor:
    """Both sides are spread to each other."""
    both = torch.broadcast_shapes(x.shape, tuple(shape))  # type: ignore[no-untyped-call]
    return x.expand(both)


@operator("Tile", static=(1,))
def tile(call: Call, x: Tensor, repeats: list[int]) -> Tensor:
    return x.repeat(repeats)


@operator("Gather", optional=(1,))
def gather(call: Call, x: Tensor, index: Tensor | int | list[int]) -> Tensor:
    """Negative places count from the end."""
    axis = call.whole("axis") % x.dim()
    if isinstance(index, int):
        return x.select(axis, index)
    if isinstance(index, list):
        index = torch.tensor(index, dtype=torch.int64)
    index = index.long()
    index = torch.where(index < 0, index + x.shape[axis], index)
    if axis == 0 and x.dim() == 2 and x.dtype.is_floating_point:
        return F.embedding(index, x)
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    return x.index_select(axis, index.reshape(-1)).reshape(shape)


@operator("GatherElements")
def gather_elements(call: Call, x: Tensor, index: Tensor) -> Tensor:
    axis = call.whole("axis")
    return torch.gather(x, axis, torch.where(index < 0, index + x.shape[axis], index).long())


@operator("GatherND")
def gather_nd(call: Call, x: Tensor, index: Tensor) -> Tensor:
    if call.whole("batch_dims"):
        raise NotImplementedError("batch dims")
    return x[tuple(index.long().unbind(-1))]


@operator("ScatterND")
def scatter_nd(call: Call, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    if call.text("reduction", "none") != "none":
        raise NotImplementedError("a reduction")
    return torch.index_put(x, tuple(index.long().unbind(-1)), updates)


@operator("Pad", static=(1, 3), optional=(2,))
def pad(
    call: Call,
    x: Tensor,
    pads: list[int] | None = None,
    value: Number | Tensor | None = None,
    axes: list[int] | None = None,
) -> Tensor:
    """Zeros, or what `mode` says, around a tensor; attributes before version 11."""
    pads = pads or call.ints("pads")
    axes = list(range(x.dim())) if axes is None else [axis % x.dim() for axis in axes]
    if isinstance(value, Tensor | list):
        raise NotImplementedError("a value that is known only as the model runs")
    sides = [(0, 0)] * x.dim()
    for n, axis in enumerate(axes):
        sides[axis] = (pads[n], pads[n + len(axes)])
    mode = call.text("mode", "constant")
    if mode == "constant":
        fill = call.number("value", 0.0) if value is None else value
        return F.pad(x, [n for side in sides[::-1] for n in side], value=fill)
    last = max((d + 1 for d in range(x.dim()) if sides[d] == (0, 0)), default=0)
    if mode not in ("reflect", "edge") or any(s != (0, 0) for s in sides[:last]) or last == 0:
        raise NotImplementedError(f"mode {mode} for these dims")
    named = {"reflect": "reflect", "edge": "replicate"}[mode]
    return F.pad(x, [n for side in sides[last:][::-1] for n in side], mode=named)


@operator("Shape")
def shape(call: Call, x: Tensor) -> Tensor:
    end = call.whole("end", x.dim())
    return torch.tensor(list(x.shape)[call.whole("start") : end], dtype=torch.int64)


@operator("Size")
def size(call: Call, x: Tensor) -> Tensor:
    return torch.tensor(x.numel())


@operator("ConstantOfShape", static=(0,))
def constant_of_shape(call: Call, shape: list[int]) -> Tensor:
    value = call.attrs.get("value")
    if isinstance(value, Tensor):
        return value.reshape([]).expand(shape).clone()
    return torch.zeros(shape)


@operator("Constant")
def constant(call: Call) -> Tensor:
    for name, dtype in (("float", torch.float32), ("int", torch.int64)):
        for held in (f"value_{name}", f"value_{name}s"):
            if held in call.attrs:
                return torch.tensor(call.attrs[held], dtype=dtype)
    value = call.attrs.get("value")
    if isinstance(value, Tensor):
        return value
    raise NotImplementedError("a constant that is no tensor of numbers")


@operator("Range", static=(0, 1, 2))
def arange(call: Call, start: Number, end: Number, step: Number) -> Tensor:
    return torch.arange(start, end, step, dtype=call.dtype)


@operator("OneHot", static=(1,))
def one_hot(call: Call, index: Tensor, depth: int | list[int], values: Tensor) -> Tensor:
    """Negative places count from the end; what is out of range is nowhere."""
    count = depth[0] if isinstance(depth, list) else depth
    off, on = values.unbind()
    places = torch.where(index < 0, index + count, index).long()
    axis = call.whole("axis", -1) % (index.dim() + 1)
    hot = places.unsqueeze(axis) == torch.arange(count).reshape(
        [count if d == axis else 1 for d in range(index.dim() + 1)]
    )
    return torch.where(hot, on, off)


@operator("Trilu", static=(1,))
def trilu(call: Call, x: Tensor, diagonal: int | None = None) -> Tensor:
    cut = torch.triu if call.whole("upper", 1) else torch.tril
    return cut(x, diagonal or 0)


@operator("DepthToSpace")
def depth_to_space(call: Call, x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    b = call.whole("blocksize")
    if call.text("mode", "DCR") == "CRD":
        return F.pixel_shuffle(x, b)
    made = x.reshape(n, b, b, c // b**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return made.reshape(n, c // b**2, h * b, w * b)


@operator("SpaceToDepth")
def space_to_depth(call: Call, x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    b = call.whole("blocksize")
    made = x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4)
    return made.reshape(n, c * b**2, h // b, w // b)


@operator("NonZero", static=(0,))
def nonzero(call: Call, x: list[Number]) -> Tensor:
    """Of what is known alone: else its size depends on values."""
    return torch.tensor(x).nonzero().t().contiguous()


@operator("Resize", "Upsample", static=(1, 2, 3))
def resize(
    call: Call,
    x: Tensor,
    second: list[Number] | None = None,
    third: list[Number] | None = None,
    sizes: list[int] | None = None,
) -> Tensor:
    """Those kinds that PyTorch has; before version 11, the second input has the factors."""
    factors = third if call.opset >= 11 else second
    before = call.opset < 11
    mode = call.text("mode", "nearest")
    where = call.text("coordinate_transformation_mode", "asymmetric" if before else "half_pixel")
    rounding = call.text("nearest_mode", "floor" if before else "round_prefer_floor")
    if call.ints("axes") or call.whole("antialias") or call.whole("exclude_outside"):
        raise NotImplementedError("axes, antialias or exclude_outside")
    if call.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise NotImplementedError("a kept aspect ratio")
    whole = [1.0, 1.0, *([] if not factors else factors[2:])]
    if factors:
        if list(factors[:2]) != [1, 1]:
            raise NotImplementedError("other dims than those of space")
        size = None
    elif sizes and list(sizes[:2]) == list(x.shape[:2]):
        size = [int(n) for n in sizes[2:]]
        whole += [n / m for n, m in zip(size, x.shape[2:], strict=True)]
    else:
        raise NotImplementedError("other dims than those of space")
    scale = None if size else [float(f) for f in whole[2:]]
    space = x.dim() - 2
    if mode == "nearest":
        integral = all(float(f).is_integer() for f in whole)
        exact = all(float(f).is_integer() or (not before and (1 / f).is_integer()) for f in whole)
        if where == "asymmetric" and rounding == "floor" and exact:
            return F.interpolate(x, size, scale, "nearest")
        if where in ("half_pixel", "pytorch_half_pixel") and integral:
            return F.interpolate(x, size, scale, "nearest-exact")
        raise NotImplementedError(f"nearest neighbours by {where} and {rounding}")
    named = {"linear": ["linear", "bilinear", "trilinear"][space - 1], "cubic": "bicubic"}.get(mode)
    one = any(n == 1 for n in x.shape[2:]) and where == "pytorch_half_pixel"
    sharp = mode == "cubic" and (space != 2 or abs(call.number("cubic_coeff_a", -0.75) + 0.75) > 0)
    modes = {"half_pixel": False, "pytorch_half_pixel": False, "align_corners": True}
    if where not in modes or named is None or one or sharp:
        raise NotImplementedError(f"{mode} by {where}")
    return F.interpolate(x, size, scale, named, align_corners=modes[where])
