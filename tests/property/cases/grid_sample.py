"""Sampling images at points inside and outside of them."""

from hypothesis import strategies as st

from cases import Call, Draw, case, real, size


@case("aten.grid_sampler_2d")
def grid_sampler(draw: Draw) -> Call:
    batch, channels = size(draw, high=3), size(draw, high=3)
    image = real(draw, batch, channels, size(draw), size(draw))
    grid = real(draw, batch, size(draw, high=4), size(draw, high=4), 2)
    attrs = {
        "interpolation_mode": draw(st.integers(0, 2)),
        "padding_mode": draw(st.integers(0, 2)),
        "align_corners": draw(st.booleans()),
    }
    return attrs, [image, grid]


@case("aten.grid_sampler_2d_backward")
def grid_sampler_backward(draw: Draw) -> Call:
    attrs, (image, grid) = grid_sampler(draw)
    assert image is not None
    assert grid is not None
    mask = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
    g = real(draw, *image.shape[:2], *grid.shape[1:3])
    return {**attrs, "output_mask": mask}, [g, image, grid]
