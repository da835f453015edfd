"""One step of a model, run on fake tensors and recorded.

declare     parameters, buffers and the batch become inputs of the graph
forward     loss = loss_fn(model(inputs), targets)          these two once for each micro-batch,
backward    loss.backward()                                 if gradients are accumulated
clip        clip_grad_norm_(model.parameters(), ...)        if asked for
update      optimizer.step()
collect     what the step changed becomes an output, as the new value of an input
unmerge     dims that kernels want merged are kept apart
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from graphwright.aten import (
    RATE,
    STEP,
    BatchDim,
    blamed_on,
    call,
    casting,
    groups_with_rates,
    map_named,
    named_tensors,
    numbers_in_state,
    own_numbers,
    rate_label,
    refuse_arrays,
    stepping,
    twin,
    without_autocast,
)
from graphwright.capture.clip import clip
from graphwright.capture.micro import micro_batches
from graphwright.capture.record import (
    Functionalisation,
    Recorder,
    Results,
    Value,
    as_parameter,
    assemble,
    carry_hooks,
    functional,
    stamp,
    swapped,
    value_of,
)
from graphwright.capture.recurrent import unrolled
from graphwright.errors import (
    ComplexInput,
    InvalidBatch,
    NoTrainingStep,
    UnsupportedModel,
    UnsupportedOptimizer,
)
from graphwright.ir import Graph, Phase, Role
from graphwright.rewrite import RULES, elementwise, unmerge

LossFunction = Callable[[Any, Any], Tensor]


@dataclass(slots=True)
class Step:
    """A step to record; `loss_fn` and `optimizer` are None where there is no such part."""

    model: nn.Module
    inputs: Any
    targets: Any = ()
    training: bool = True
    loss_fn: LossFunction | None = None
    optimizer: torch.optim.Optimizer | None = None
    clip_norm: float | None = None
    accumulate: int = 1
    batch_dim: BatchDim = 0
    autocast: torch.dtype | None = None
    recorder: Recorder = field(init=False)
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    tensors: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    originals: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    results: Results = field(default_factory=Results)
    given_twice: list[dict[str, Tensor]] = field(default_factory=list[dict[str, Tensor]])
    constant_rates: bool = False

    def record(self) -> Graph:
        """Run the step and return its graph."""
        self.recorder = Recorder(_names_of_constants(self.model))
        mode = Functionalisation(self.recorder.constants.lift)
        with ExitStack() as stack:
            stack.enter_context(_untouched_settings())
            stack.enter_context(without_autocast())
            stack.enter_context(self.recorder)
            self.declare(mode)
            stack.enter_context(
                self.recorder.provenance.following(list(self.model.named_modules()))
            )
            stack.enter_context(unrolled(self.recorder.provenance))
            for module in self.modules():
                replacements = {id(self.originals[n]): t for n, t in self.tensors.items()}
                stack.enter_context(swapped(module, replacements, self.recorder.constants.read))
            with mode:
                if self.training:
                    self.passes()
                else:
                    self.infer()
                if self.clip_norm is not None:
                    self.clip(self.clip_norm)
            if self.optimizer is not None:
                self.update(mode)
            with mode:
                self.collect()
        unmerge(self.recorder.tape, self.results, RULES, elementwise)
        return assemble(self.recorder.tape, self.results, self.recorder.provenance.calls)

    def modules(self) -> list[nn.Module]:
        """The model, and the loss if it is a module."""
        return [self.model, *([self.loss_fn] if isinstance(self.loss_fn, nn.Module) else [])]

    # Inputs.

    def declare(self, mode: Functionalisation) -> None:
        for prefix, module in zip(("", "loss_fn."), self.modules(), strict=False):
            for name, parameter in module.named_parameters():
                self.declare_one(prefix + name, parameter, Role.PARAMETER)
            for name, buffer in module.named_buffers():
                self.declare_one(prefix + name, buffer, Role.BUFFER)
        with mode:
            for name, original in self.originals.items():
                fake = self.tensors[name]
                trains = self.training and original.requires_grad
                wrapped = functional(fake, requires_grad=trains)
                if self.values[name].role is Role.PARAMETER:
                    as_parameter(wrapped)
                if trains:
                    carry_hooks(name, original, wrapped, self.recorder, self.values[name])
                self.tensors[name] = wrapped
            given: dict[str, Tensor] = {}
            names: dict[int, list[str]] = {}
            for prefix, tree in (("inputs", self.inputs), ("targets", self.targets)):
                refuse_arrays(prefix, tree)
                for name, tensor in named_tensors(prefix, tree):
                    _check_dense(name, tensor)
                    if name in self.values:
                        raise UnsupportedModel(
                            f"the model has a {self.values[name].role} called {name}, which is the name of a "
                            "tensor of the batch; rename that attribute of the model"
                        )
                    fake = self.recorder.empty(tensor)
                    self.values[name] = self.recorder.declare(name, fake, Role.INPUT)
                    given[name] = functional(fake)
                    names.setdefault(id(tensor), []).append(name)
            if not given:
                raise InvalidBatch(
                    "the batch holds no tensor; give example inputs with their shapes"
                )
            self.given_twice = [
                {name: given[name] for name in same} for same in names.values() if len(same) > 1
            ]
            self.inputs = map_named(lambda name, _: given[name], "inputs", self.inputs)
            self.targets = map_named(lambda name, _: given[name], "targets", self.targets)

    def declare_one(self, name: str, tensor: Tensor, role: Role) -> None:
        if any(tensor is known for known in (self.originals.get(name),)):
            return
        _check_dense(name, tensor)
        fake = self.recorder.empty(tensor)
        self.originals[name] = tensor
        self.values[name] = self.recorder.declare(name, fake, role)
        self.tensors[name] = fake

    # The phases.

    def infer(self) -> None:
        """Run the model alone."""
        with torch.no_grad(), casting(self.autocast):
            output = call(self.model, self.inputs)
        leaves = dict(named_tensors("output", output))
        if not leaves:
            raise UnsupportedModel(
                f"the model returns {type(output).__name__} without a tensor; return tensors, or a tuple, "
                "list or dict of them"
            )
        self.results.outputs.update(
            {self.free_name(name): value_of(t) for name, t in leaves.items()}
        )

    def passes(self) -> None:
        """Forward and backward, for each micro-batch if there are several."""
        parts = micro_batches(self.accumulate, self.inputs, self.targets, self.batch_dim)
        if self.accumulate == 1:
            for inputs, targets in parts:
                loss = self.forward(inputs, targets)
                self.results.outputs[self.free_name("loss")] = value_of(loss)
                self.backward(loss)
        else:
            self.accumulated_passes(parts)
        for name, tensor in self.trained().items():
            assert tensor.grad is not None
            grad = value_of(tensor.grad)
            self.results.gradients[name] = grad
            self.results.owners.setdefault(grad, name)
            self.results.owners[self.values[name]] = name
        self.results.gradients_returned = self.optimizer is None

    def accumulated_passes(self, parts: Iterator[tuple[Any, Any]]) -> None:
        provenance = self.recorder.provenance
        losses: list[Tensor] = []
        sums: dict[str, Tensor] = {}
        for number in range(self.accumulate):
            with provenance.at_micro_batch(number):
                inputs, targets = next(parts)
                loss = self.forward(inputs, targets) / self.accumulate
                losses.append(loss.detach())
                self.backward(loss)
                for name, tensor in self.trained().items():
                    sums[name] = self.added(name, sums.get(name), tensor)
                    tensor.grad = None
        for name, total in sums.items():
            self.tensors[name].grad = total
        provenance.phase = Phase.FORWARD
        mean = losses[0]
        for loss in losses[1:]:
            mean = mean + loss
        self.results.outputs[self.free_name("loss")] = value_of(mean)

    def added(self, name: str, total: Tensor | None, tensor: Tensor) -> Tensor:
        """A parameter's gradient, and what earlier micro-batches gave."""
        assert tensor.grad is not None
        term = value_of(tensor.grad)
        if total is None:
            return tensor.grad
        reader = None if term.producer is None else term.producer.partner
        with torch.no_grad(), self.recorder.provenance.belonging_to(reader):
            total = total + tensor.grad
        value_of(total).role, value_of(total).of = Role.GRADIENT, self.values[name]
        return total

    def trained(self) -> dict[str, Tensor]:
        """The parameters that have a gradient now."""
        return {
            name: tensor
            for name, tensor in self.tensors.items()
            if tensor.grad is not None and self.values[name].role is Role.PARAMETER
        }

    def forward(self, inputs: Any, targets: Any) -> Tensor:
        """Return the loss."""
        with torch.enable_grad(), casting(self.autocast):
            loss = call(self.model, inputs)
            if self.loss_fn is not None:
                loss = self.loss_fn(loss, targets)
        if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.is_floating_point():
            found = (
                f"a {loss.dtype} tensor of shape {tuple(loss.shape)}"
                if isinstance(loss, Tensor)
                else f"a {type(loss).__name__}"
            )
            what = "loss_fn" if self.loss_fn is not None else "the model (no loss_fn was given)"
            raise NoTrainingStep(
                f"the loss has to be one floating-point number, but {what} returned {found}; "
                + _how_to_return_a_loss(loss, self.loss_fn is not None)
            )
        if not loss.requires_grad:
            raise NoTrainingStep(
                "the loss depends on no parameter that requires a gradient; check requires_grad, detach() and "
                "torch.no_grad, or capture inference with inputs=..."
            )
        return loss

    def backward(self, loss: Tensor) -> None:
        provenance = self.recorder.provenance
        provenance.watch(loss)
        provenance.phase = Phase.BACKWARD
        torch.autograd.backward(loss)
        provenance.accumulating = False

    def clip(self, max_norm: float) -> None:
        """Scale the gradients of the model; those of a loss with parameters of its own are left alone."""
        own = {id(parameter) for parameter in self.model.parameters()}
        self.recorder.provenance.phase = Phase.UPDATE
        given = {
            name: tensor.grad
            for name, tensor in self.trained().items()
            if tensor.grad is not None and id(tensor) in own
        }
        if not given:
            return
        with torch.no_grad():
            clipped, norm = clip(given, max_norm)
        for name, gradient in clipped.items():
            after = value_of(gradient)
            self.results.unclipped[name] = self.results.gradients[name]
            self.results.gradients[name] = after
            self.results.owners[after] = name
            self.tensors[name].grad = gradient
        self.results.outputs[self.free_name("grad_norm")] = value_of(norm)

    def free_name(self, name: str) -> str:
        """Return a result's name; a parameter or buffer that is called so keeps its own."""
        return name if name not in self.values else f"{name}.result"

    def update(self, mode: Functionalisation) -> None:
        assert self.optimizer is not None
        provenance = self.recorder.provenance
        provenance.phase = Phase.UPDATE
        states, rates = self.initial_state()
        names = {id(original): name for name, original in self.originals.items()}
        by_original = {id(self.originals[name]): tensor for name, tensor in self.tensors.items()}
        with mode, stepping():
            running = twin(self.optimizer, by_original)
            for number, fake in rates.items():
                label = rate_label(number)
                self.values[label] = self.recorder.declare(label, fake, Role.OPTIMIZER_STATE)
                running.param_groups[number][RATE] = functional(fake)
            live: dict[str, Tensor] = {}
            for number, group in enumerate(self.optimizer.param_groups):
                for parameter in group["params"]:
                    name = names[id(parameter)]
                    state = states.get(name)
                    if state is None:
                        continue
                    entries: dict[str, Any] = {}
                    for key, item in state.items():
                        entries[key] = item
                        if isinstance(item, Tensor):
                            label, wrapped = self.state_input(name, key, item, number)
                            entries[key] = wrapped
                            live.setdefault(label, wrapped)
                    running.state[self.tensors[name]] = entries
            before = numbers_in_state(running), own_numbers(running)
            with blamed_on(self.optimizer):
                running.step()
            if (numbers_in_state(running), own_numbers(running)) != before:
                raise UnsupportedOptimizer(
                    f"{type(running).__name__} keeps a plain number in its state or as an attribute that changes with each step; "
                    "keep it in a tensor, in its state"
                )
            for label, tensor in self.state_after(running, names).items():
                live[label] = tensor
        self.tensors.update(live)

    def initial_state(self) -> tuple[dict[str, dict[str, Any]], dict[int, Tensor]]:
        """Return the optimizer's state for each parameter, as a first step makes it, and its rates.

        All on fake tensors. There are no rates where a step with tensors for them fails.
        """
        assert self.optimizer is not None
        fakes: dict[int, Tensor] = {}
        named: dict[int, str] = {}
        with self.recorder.paused():
            for name, original in self.originals.items():
                if self.values[name].role is Role.PARAMETER:
                    fake = as_parameter(self.recorder.empty(original))
                    if name in self.results.gradients:
                        fake.grad = self.recorder.empty(original)
                    fakes[id(original)] = fake
                    named[id(fake)] = name
            trial = twin(self.optimizer, fakes)
            for parameter, state in self.optimizer.state.items():
                if id(parameter) in fakes:
                    trial.state[fakes[id(parameter)]] = {
                        k: self.recorder.empty(v) if isinstance(v, Tensor) else v
                        for k, v in state.items()
                    }
            given = groups_with_rates(self.optimizer)
            for number in given:
                if isinstance(trial.param_groups[number][RATE], Tensor):
                    trial.param_groups[number][RATE] = 1e-3  # only types matter; a number will do
            with stepping(), blamed_on(self.optimizer):
                trial.step()
            states = {named[id(p)]: dict(s) for p, s in trial.state.items() if p.grad is not None}
            rates = {number: torch.empty((), dtype=torch.float64) for number in given}
            for number, rate in rates.items():
                trial.param_groups[number][RATE] = rate
            try:
                with stepping():
                    trial.step()
            except Exception:
                self.constant_rates = True
                rates = {}
        return states, rates

    def state_input(self, name: str, key: str, fake: Tensor, group: int) -> tuple[str, Tensor]:
        """Declare one state tensor; a group's step counters are one input."""
        if key == STEP and fake.dim() == 0:
            label = f"optimizer.{STEP}.{group}"
            if label not in self.values:
                counter = self.recorder.empty(fake, torch.float64)
                self.values[label] = self.recorder.declare(label, counter, Role.OPTIMIZER_STATE)
                self.originals[label] = counter
            counter = self.recorder.empty(fake, torch.float64)
            stamp(counter, self.values[label])
            return label, functional(counter)
        label = f"{name}.{key}"
        of = self.values[name]
        self.values[label] = self.recorder.declare(label, fake, Role.OPTIMIZER_STATE, of)
        self.results.owners[self.values[label]] = name
        return label, functional(fake)

    def state_after(
        self, optimizer: torch.optim.Optimizer, names: dict[int, str]
    ) -> dict[str, Tensor]:
        """Return the state tensors that an optimizer holds after its step, by label."""
        found: dict[str, Tensor] = {}
        by_tensor = {
            id(self.tensors[name]): name for name in names.values() if name in self.tensors
        }
        groups = {
            id(p): number
            for number, group in enumerate(optimizer.param_groups)
            for p in group["params"]
        }
        for parameter, state in optimizer.state.items():
            for key, item in state.items():
                if isinstance(item, Tensor):
                    name = by_tensor[id(parameter)]
                    shared = key == STEP and item.dim() == 0
                    label = (
                        f"optimizer.{STEP}.{groups[id(parameter)]}" if shared else f"{name}.{key}"
                    )
                    found[label] = item
        return found

    def collect(self) -> None:
        """Find what the step changed."""
        for prefix, module in zip(("", "loss_fn."), self.modules(), strict=False):
            for name, buffer in module.named_buffers():
                if prefix + name in self.tensors:
                    self.tensors[prefix + name] = buffer  # it may have been assigned anew
        for name, tensor in self.tensors.items():
            new = value_of(tensor)
            if new is not self.values[name]:
                if new.type != self.values[name].type:
                    raise UnsupportedModel(
                        f"the step turns {name} from {self.values[name].type!r} into {new.type!r}; a value that "
                        "is kept between steps has to keep its shape and dtype"
                    )
                self.results.updates[name] = new
        for same in self.given_twice:
            if any(value_of(tensor) is not self.values[name] for name, tensor in same.items()):
                raise UnsupportedModel(
                    f"{' and '.join(same)} of the batch are one tensor, and the model writes to it; give each a tensor of its own"
                )


@contextmanager
def _untouched_settings() -> Iterator[None]:
    """Keep the generator's state; no compiled functions, no fused kernels that hide operators."""
    state = torch.default_generator.get_state()
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        torch.default_generator.set_state(state)


def _how_to_return_a_loss(found: object, has_loss_fn: bool) -> str:
    if isinstance(found, Tensor):
        if found.numel() == 1:
            return "numbers of this dtype have no gradient: compute it in floating point"
        return "reduce it with .mean() or .sum()"
    if found is None:
        return "return the loss tensor (is a return missing?)"
    if isinstance(found, (int, float)):
        return "return the loss tensor itself, without .item() or float()"
    picked = "out['loss']" if isinstance(found, dict) or hasattr(found, "loss") else "out[0]"
    if has_loss_fn:
        return f"return the loss tensor, e.g. {picked}"
    return (
        f"return the loss tensor, e.g. {picked}: give loss_fn=lambda out, _: {picked} with "
        "batch=(inputs, ())"
    )


def _names_of_constants(model: nn.Module) -> dict[int, str]:
    """Return the path of each plain tensor attribute, by `id`."""
    return {
        id(value): f"{path}.{name}".lstrip(".")
        for path, module in model.named_modules()
        for name, value in module.__dict__.items()
        if isinstance(value, Tensor)
    }


def _check_dense(name: str, tensor: Tensor) -> None:
    if nn.parameter.is_lazy(tensor):
        raise UnsupportedModel(
            f"{name} has no shape yet (a lazy module); run the model once before capturing it"
        )
    if tensor.is_complex():
        raise ComplexInput(f"{name} is {tensor.dtype}; use two real tensors (torch.view_as_real)")
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized:
        raise UnsupportedModel(f"{name} is not a dense tensor ({tensor.layout}); convert it first")
