"""The update of a training step: the user's own optimizer, run on the step's tensors.

A twin of the optimizer (same class, same groups, other parameters) takes one throw-away step on
fake tensors, which makes its state; each state tensor becomes an input of the graph; then the
twin's step is recorded. Any optimizer written in tensor operators works, since nothing here knows
Adam from SGD.

Step counters stay tensors (`torch.compiler.is_compiling` answers yes while the twin steps, so that
no optimizer reads a counter as a number), are float64, and are one input for a whole parameter
group: `optimizer.step.<group>`. The recorder merges equal scalar nodes of the update, so that bias
corrections appear once for each group.

The learning rate of a group is an input too, `optimizer.lr.<group>`: a float64 number that the step
reads and does not change, so a schedule feeds another value before each step. An optimizer that can
only compute with a Python number keeps the rate that it had (see `ConstantLearningRate`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.overrides import TorchFunctionMode

from graphwright.errors import GraphwrightError, UnsupportedOptimizer

OptimizerLike = type[torch.optim.Optimizer] | torch.optim.Optimizer

STEP = "step"
RATE = "lr"


class ConstantLearningRate(UserWarning):
    """An optimizer cannot run with a tensor as its learning rate, so the graph has the rate fixed.

    A schedule would not reach such a graph: capture again after each change of the rate, or write
    the optimizer's step in tensor operators (no `float(lr)`, no `if lr > 0`).
    """


_FLAGS = {"foreach": False, "fused": False, "capturable": True, "differentiable": False}


def make_optimizer(
    optimizer: OptimizerLike, options: Mapping[str, Any] | None, model: nn.Module
) -> torch.optim.Optimizer:
    """Return an optimizer over the model's parameters; checks that it can be recorded."""
    if isinstance(optimizer, torch.optim.Optimizer):
        if options:
            raise UnsupportedOptimizer(
                "optimizer_options go with an optimizer class; an instance has its options already"
            )
        made = optimizer
    else:
        given: object = optimizer
        if not isinstance(given, type) or not issubclass(given, torch.optim.Optimizer):
            raise UnsupportedOptimizer(
                f"optimizer has to be a torch.optim class or instance, not {optimizer!r}"
            )
        trainable = [p for p in model.parameters() if p.requires_grad]
        try:
            made = optimizer(trainable, **(options or {}))
        except (TypeError, ValueError) as error:
            raise UnsupportedOptimizer(
                f"{optimizer.__name__} does not take these options: {error}; check "
                "optimizer_options"
            ) from error
    reasons = {
        torch.optim.LBFGS: "calls the model several times in a step (a closure)",
        torch.optim.SparseAdam: "works on sparse gradients",
    }
    for unsupported, reason in reasons.items():
        if isinstance(made, unsupported):
            raise UnsupportedOptimizer(
                f"{type(made).__name__} {reason}; use SGD, Adam, AdamW, Adagrad or another "
                "first-order optimizer"
            )
    known = {id(p) for p in model.parameters()}
    if any(id(p) not in known for group in made.param_groups for p in group["params"]):
        raise UnsupportedOptimizer(
            "the optimizer holds a tensor that is not a parameter of the model; make it with "
            "model.parameters(). A loss with parameters of its own is trained as a part of the "
            "model, which then returns the loss (loss_fn=None)"
        )
    _refuse_another_first_step(made)
    return made


def _refuse_another_first_step(optimizer: torch.optim.Optimizer) -> None:
    """Raise if the first step differs from later ones, as for momentum with dampening."""
    numbers = torch.Generator().manual_seed(0)
    for number, group in enumerate(optimizer.param_groups):
        fresh = [p for p in group["params"] if not optimizer.state.get(p)]
        if not fresh:
            continue
        shape = [min(size, 2) for size in fresh[0].shape]
        start, grad = (torch.randn(shape, generator=numbers, dtype=torch.float64) for _ in range(2))
        begun, going = (start.clone().requires_grad_() for _ in range(2))
        for tensor in (begun, going):
            tensor.grad = grad.clone()
        first, later = (for_one(optimizer, group, tensor) for tensor in (begun, going))
        try:
            later.state[going] = initial_state(later)[going]
            with stepping():
                first.step()
                later.step()
        except Exception:  # what it cannot do is told when it is recorded
            continue
        same = torch.allclose(begun, going, rtol=1e-6, atol=0, equal_nan=True)
        if not same and not numbers_in_state(first):  # numbers are refused when it is recorded
            raise UnsupportedOptimizer(
                f"the first step of {type(optimizer).__name__} (parameter group {number}) differs "
                "from those that follow (SGD with dampening does not damp it), and a graph has one "
                "for all; take one step with the optimizer before it is captured, or leave out "
                "that option"
            )


def for_one(
    optimizer: torch.optim.Optimizer, group: Mapping[str, Any], tensor: Tensor
) -> torch.optim.Optimizer:
    """The same optimizer with the options of one group, for one tensor."""
    made = twin(optimizer, {id(p): p for g in optimizer.param_groups for p in g["params"]})
    made.param_groups = [_with_params(group, [tensor])]
    return made


def twin(
    optimizer: torch.optim.Optimizer, replacements: Mapping[int, Tensor]
) -> torch.optim.Optimizer:
    """Return the same optimizer over other parameters, given by `id` of the originals; no state."""
    made = object.__new__(type(optimizer))
    made.__dict__.update(optimizer.__dict__)
    made.__dict__.pop("step", None)  # a scheduler's wrapper, which would step the original
    made.state = defaultdict(dict)
    made.param_groups = []
    for group in optimizer.param_groups:
        params = [replacements[id(p)] for p in group["params"]]
        made.param_groups.append(_with_params(group, params))
    return made


def _with_params(group: Mapping[str, Any], params: list[Tensor]) -> dict[str, Any]:
    """The same group of other parameters, its kernels called one by one."""
    flags = {name: value for name, value in _FLAGS.items() if name in group}
    return {**group, **flags, "params": params}


def fixed_options(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """The options of each parameter group that a captured step has fixed: not its rate or flags."""
    names = optimizer.defaults.keys() - {RATE, *_FLAGS}
    return [{n: group[n] for n in names & group.keys()} for group in optimizer.param_groups]


def refuse_changes(optimizer: torch.optim.Optimizer, before: Sequence[Mapping[str, Any]]) -> None:
    """Raise if an option has changed that a captured step has fixed."""
    if len(optimizer.param_groups) != len(before):
        raise UnsupportedOptimizer(
            f"the optimizer had {len(before)} parameter groups when the step was made, and has "
            f"{len(optimizer.param_groups)} now; add groups before capturing"
        )
    for number, (group, fixed) in enumerate(zip(optimizer.param_groups, before, strict=True)):
        for name, old in fixed.items():
            new = group[name]
            if new is not old and repr(new) != repr(old):
                raise UnsupportedOptimizer(
                    f"{name} of parameter group {number} was {old} when the step was made, and is "
                    f"{new} now; a step follows learning rates only. Give OneCycleLR or CyclicLR "
                    "cycle_momentum=False; for other options capture, plan and compile anew"
                )


def learning_rates(optimizer: torch.optim.Optimizer) -> dict[int, Tensor]:
    """Return the learning rate of each parameter group that has one, as float64 numbers."""
    rates: dict[int, Tensor] = {}
    for number in groups_with_rates(optimizer):
        rate = optimizer.param_groups[number][RATE]
        if isinstance(rate, float) and not math.isfinite(rate):
            raise UnsupportedOptimizer(
                f"the learning rate of parameter group {number} is {rate}, not a finite number"
            )
        rates[number] = torch.as_tensor(rate, dtype=torch.float64).detach().reshape(())
    return rates


def groups_with_rates(optimizer: torch.optim.Optimizer) -> list[int]:
    """Return the numbers of the parameter groups that have a learning rate."""
    numbers: list[int] = []
    for number, group in enumerate(optimizer.param_groups):
        rate = group.get(RATE)
        if isinstance(rate, (int, float)) or (isinstance(rate, Tensor) and rate.numel() == 1):
            numbers.append(number)
        elif rate is not None or optimizer.defaults.get(RATE) is not None:
            raise UnsupportedOptimizer(
                f"the learning rate of parameter group {number} is {rate!r}; give a number"
            )
    return numbers


def check_counts(group: int, counts: Mapping[str, Tensor]) -> None:
    """Raise if parameters of a group, by name, have taken different numbers of steps."""
    for name, count in counts.items():
        first, expected = next(iter(counts.items()))
        if count != expected:
            raise UnsupportedOptimizer(
                f"{first} of parameter group {group} has taken {expected:.0f} steps and {name} "
                f"{count:.0f}, and a captured step has one counter for each group; put them into "
                "groups of their own, or begin with a new optimizer"
            )


def rate_label(group: int) -> str:
    """Return the name of a group's learning rate in a graph."""
    return f"optimizer.{RATE}.{group}"


def is_rate(name: str) -> bool:
    """Whether an input of a graph is the learning rate of a group."""
    return name.startswith(f"optimizer.{RATE}.")


@contextmanager
def stepping() -> Iterator[None]:
    """Let optimizers treat their counters as tensors."""
    with mock.patch.object(torch.compiler, "_is_compiling_flag", True), _TensorScalars():
        yield


@contextmanager
def blamed_on(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Let an error inside be the optimizer's, by name."""
    try:
        yield
    except GraphwrightError:
        raise
    except Exception as error:
        reason = (
            f"reads a tensor's value ({error.func})"
            if isinstance(error, DataDependentOutputException)
            else f"raised {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        )
        refused = UnsupportedOptimizer(
            f"{type(optimizer).__name__} cannot be written as a graph: its step {reason}; use SGD, "
            "Adam, AdamW, Adagrad or another optimizer that computes with tensors alone"
        )
        refused.cause = error
        raise refused from error


class _TensorScalars(TorchFunctionMode):
    """Accept tensors where `add_(x, alpha=...)` and `addcdiv_(..., value=...)` ask for numbers."""

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        value, alpha = kwargs.get("value"), kwargs.get("alpha")
        if isinstance(value, Tensor) and name.startswith(("addcdiv", "addcmul")):
            x, a, b = args
            return getattr(x, name)(a * value, b)
        if isinstance(alpha, Tensor) and name in ("add", "add_", "sub", "sub_"):
            x, other = args
            factor = alpha if name.startswith("add") else -alpha
            return (x.addcmul_ if name.endswith("_") else x.addcmul)(other, factor)
        return func(*args, **kwargs)


class _FirstValues(dict[str, Any]):
    """A parameter's state that remembers what each entry was first set to."""

    def __init__(self) -> None:
        super().__init__()
        self.first: dict[str, Any] = {}

    def __setitem__(self, key: str, value: Any) -> None:
        first = value.clone() if isinstance(value, Tensor) else value
        self.first.setdefault(key, first)
        super().__setitem__(key, value)


def initial_state(optimizer: torch.optim.Optimizer) -> dict[Tensor, dict[str, Any]]:
    """Return the state that each parameter has, or would have before its first step.

    Optimizers make their state in that step, so a twin takes it: on zeros, with zero gradients,
    where also what is set after the update (SGD's momentum) is still what it starts from.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    stand_ins = {id(p): torch.zeros_like(p).requires_grad_() for p in parameters}
    for tensor in stand_ins.values():
        tensor.grad = torch.zeros_like(tensor)
    trial = twin(optimizer, stand_ins)
    trial.state = defaultdict(_FirstValues)
    for parameter, state in optimizer.state.items():  # some make theirs when they are made
        for key, value in state.items():
            copy = value.clone() if isinstance(value, Tensor) else value
            trial.state[stand_ins[id(parameter)]][key] = copy
    with stepping():
        trial.step()
    states: dict[Tensor, dict[str, Any]] = {}
    for parameter in parameters:
        made = trial.state[stand_ins[id(parameter)]]
        states[parameter] = {**made.first, **optimizer.state.get(parameter, {})}
    return states


def is_number(value: object) -> bool:
    """Whether something is an ordinary number: neither a tensor nor a flag."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def numbers_in_state(optimizer: torch.optim.Optimizer) -> list[tuple[str, object]]:
    """Return the state that is not tensors: if a step changes it, it cannot be recorded."""
    return [
        (key, value)
        for state in optimizer.state.values()
        for key, value in state.items()
        if is_number(value)
    ]


def own_numbers(optimizer: torch.optim.Optimizer) -> dict[str, object]:
    """Return the plain numbers among an optimizer's own attributes, of which the same holds."""
    return {n: v for n, v in vars(optimizer).items() if is_number(v) and not n.startswith("_")}
