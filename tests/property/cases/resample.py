"""Resizing up and down, to a size or by a factor, and sampling at points."""

import torch
from hypothesis import strategies as st

from cases import Call, Draw, case, real, size


def resized(
    draw: Draw, rank: int
) -> tuple[torch.Tensor, tuple[int, ...], tuple[float | None, ...]]:
    sizes = tuple(size(draw, high=5) for _ in range(rank))
    x = real(draw, size(draw, high=3), size(draw, high=3), *sizes)
    scales: tuple[float | None, ...] = (None,) * rank
    match draw(st.sampled_from(["times", "size", "factor"])):
        case "times":
            outs = tuple(n * size(draw, high=3) for n in sizes)
        case "size":
            outs = tuple(size(draw, high=7) for _ in sizes)
        case _:
            factors = [draw(st.sampled_from([1.0, 1.25, 1.6, 2.0, 2.5, 3.0])) for _ in sizes]
            outs = tuple(int(n * f) for n, f in zip(sizes, factors, strict=True))
            scales = tuple(
                1.0 if n == m else f for n, m, f in zip(sizes, outs, factors, strict=True)
            )
    return x, outs, scales


def names(rank: int) -> tuple[str, ...]:
    return ("scales",) if rank == 1 else ("scales_d", "scales_h", "scales_w")[-rank:]


def forward(draw: Draw, rank: int, linear: bool) -> Call:
    x, outs, scales = resized(draw, rank)
    attrs = {"output_size": outs, **dict(zip(names(rank), scales, strict=True))}
    return {**attrs, "align_corners": draw(st.booleans())} if linear else attrs, [x]


def backward(draw: Draw, rank: int, linear: bool) -> Call:
    attrs, (x,) = forward(draw, rank, linear)
    assert x is not None
    outs: tuple[int, ...] = attrs["output_size"]  # type: ignore[assignment]
    return {**attrs, "input_size": tuple(x.shape)}, [real(draw, *x.shape[:2], *outs)]


def vec(draw: Draw, rank: int, linear: bool) -> Call:
    x, outs, scales = resized(draw, rank)
    if scales[0] is None:
        attrs: dict[str, object] = {"output_size": outs, "scale_factors": None}
    else:
        attrs = {"output_size": None, "scale_factors": scales}
    return {**attrs, "align_corners": draw(st.booleans())} if linear else attrs, [x]


for _name, _rank, _linear in (
    *((f"{kind}{rank}d", rank, False) for kind in ("upsample_nearest", "_upsample_nearest_exact") for rank in (1, 2, 3)),
    ("upsample_linear1d", 1, True), ("upsample_bilinear2d", 2, True), ("upsample_trilinear3d", 3, True),
    ("upsample_bicubic2d", 2, True),
):  # fmt: skip
    case(f"aten.{_name}")(lambda draw, r=_rank, s=_linear: forward(draw, r, s))
    case(f"aten.{_name}_backward")(lambda draw, r=_rank, s=_linear: backward(draw, r, s))
    case(f"aten.{_name}.vec")(lambda draw, r=_rank, s=_linear: vec(draw, r, s))
