"""Updates of optimizers: with and without weight decay, momentum the way of Nesterov, maximizing."""

from hypothesis import strategies as st

from cases import Call, Draw, case, real, shape


@case("graphwright.adam")
def adam(draw: Draw) -> Call:
    dims = shape(draw, max_rank=3)
    attrs = {
        "beta1": draw(st.sampled_from([0.9, 0.5])),
        "beta2": 0.99,
        "eps": draw(st.sampled_from([1e-8, 1e-2])),
        "weight_decay": draw(st.sampled_from([0.0, 0.3])),
        "decoupled": draw(st.booleans()),
        "maximize": draw(st.booleans()),
    }
    param, grad, average = (real(draw, *dims) for _ in range(3))
    numbers = real(draw, low=1, high=9), real(draw, low=0.001, high=0.1)
    return attrs, [param, grad, average, real(draw, *dims, low=0.1), *numbers]


@case("graphwright.sgd")
def sgd(draw: Draw) -> Call:
    dims = shape(draw, max_rank=3)
    attrs = {
        "momentum": 0.9,
        "dampening": draw(st.sampled_from([0.0, 0.5])),
        "weight_decay": draw(st.sampled_from([0.0, 0.3])),
        "nesterov": draw(st.booleans()),
        "maximize": draw(st.booleans()),
    }
    return attrs, [*(real(draw, *dims) for _ in range(3)), real(draw, low=0.001, high=0.1)]
