"""Updates of optimizers: with and without weight decay, momentum the way of Nesterov, maximizing."""

from typing import Any

from hypothesis import strategies as st

from cases import Call, Draw, case, real, shape

BETAS = {"beta1": st.sampled_from([0.9, 0.5]), "beta2": st.just(0.99)}
DECOUPLED = {"decoupled": st.booleans()}


def update(
    draw: Draw, *low: float, counts: bool = False, **options: st.SearchStrategy[Any]
) -> Call:
    """An update whose states are at least `low`."""
    dims = shape(draw, max_rank=3)
    options |= {"weight_decay": st.sampled_from([0.0, 0.3]), "maximize": st.booleans()}
    attrs = {name: draw(option) for name, option in options.items()}
    both = [real(draw, *dims), real(draw, *dims)]
    state = [real(draw, *dims, low=least) for least in low]
    step = [real(draw, low=1, high=9)] if counts else []
    return attrs, [*both, *state, *step, real(draw, low=0.001, high=0.1)]


def eps(*values: float) -> dict[str, st.SearchStrategy[Any]]:
    return {"eps": st.sampled_from(values)}


@case("graphwright.adam")
def adam(draw: Draw) -> Call:
    return update(draw, -2.0, 0.1, counts=True, **BETAS, **eps(1e-8, 1e-2), **DECOUPLED)


@case("graphwright.radam")
def radam(draw: Draw) -> Call:
    return update(draw, -2.0, 0.1, counts=True, **BETAS, **eps(1e-8, 1e-2), **DECOUPLED)


@case("graphwright.adamax")
def adamax(draw: Draw) -> Call:
    return update(draw, -2.0, 0.1, counts=True, **BETAS, **eps(1e-8, 1e-2))


@case("graphwright.adagrad")
def adagrad(draw: Draw) -> Call:
    decay = st.sampled_from([0.0, 0.1])
    return update(draw, 0.1, counts=True, lr_decay=decay, **eps(1e-10, 1e-2))


@case("graphwright.rmsprop")
def rmsprop(draw: Draw) -> Call:
    return update(draw, 0.1, alpha=st.just(0.99), **eps(1e-8, 1e-2))


@case("graphwright.rmsprop_momentum")
def rmsprop_momentum(draw: Draw) -> Call:
    alpha, momentum = st.just(0.99), st.just(0.9)
    return update(draw, 0.1, -2.0, alpha=alpha, momentum=momentum, **eps(1e-8, 1e-2))


@case("graphwright.adadelta")
def adadelta(draw: Draw) -> Call:
    return update(draw, 0.1, 0.1, rho=st.just(0.9), **eps(1e-6, 1e-2))


@case("graphwright.sgd")
def sgd(draw: Draw) -> Call:
    dampening = st.sampled_from([0.0, 0.5])
    return update(draw, -2.0, momentum=st.just(0.9), dampening=dampening, nesterov=st.booleans())
