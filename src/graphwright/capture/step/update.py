"""The optimizer's update, recorded on a twin of the optimizer.

state       what a first step would make, tried on fake tensors     becomes inputs of the graph
rates       a tensor for each group, where the optimizer allows it  become inputs, too
update      twin.step()
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from graphwright.aten import (
    RATE,
    STEP,
    blamed_on,
    groups_with_rates,
    numbers_in_state,
    own_numbers,
    rate_label,
    stepping,
    tensor_type,
    twin,
    update_of,
)
from graphwright.capture.record import (
    Functionalisation,
    TakenApart,
    Value,
    as_parameter,
    functional,
    stamp,
    value_of,
)
from graphwright.capture.step.recording import Recording
from graphwright.errors import UnsupportedOptimizer
from graphwright.ir import Phase, Role


def record_update(recording: Recording, mode: Functionalisation) -> None:
    """Run a step of the optimizer's twin on the recorded gradients."""
    assert recording.optimizer is not None
    recording.recorder.provenance.phase = Phase.UPDATE
    states, rates = _initial_state(recording)
    by_original = {
        id(recording.originals[name]): tensor for name, tensor in recording.tensors.items()
    }
    with mode, stepping():
        running = twin(recording.optimizer, by_original)
        for number, fake in rates.items():
            label = rate_label(number)
            recording.values[label] = recording.recorder.declare(label, fake, Role.OPTIMIZER_STATE)
            running.param_groups[number][RATE] = functional(fake)
        held = _declare_state(recording, running, states)
        before = numbers_in_state(running), own_numbers(running)
        before_step = {id(t): value_of(t) for t in (*recording.tensors.values(), *held.values())}
        with blamed_on(recording.optimizer):
            running.step()
        _note_updates(recording, running, before_step)
        if (numbers_in_state(running), own_numbers(running)) != before:
            raise UnsupportedOptimizer(
                f"{type(running).__name__} keeps a plain number in its state or as an attribute "
                "that "
                "changes with each step; keep it in a tensor, in its state"
            )
        held |= _state_after(recording, running)
    recording.tensors.update(held)


def _note_updates(
    recording: Recording, running: torch.optim.Optimizer, before: Mapping[int, Value]
) -> None:
    """Say which entries are the parts of one update, where an operator for it exists."""
    for number, group in enumerate(running.param_groups):
        update, rate = update_of(running, group), recording.values.get(rate_label(number))
        for parameter in group["params"] if update is not None and rate is not None else ():
            state = running.state.get(parameter, {})
            if update is None or rate is None or parameter.grad is None:
                continue
            held = [parameter, *(state[key] for key in update.state if key in state)]
            if len(held) != 1 + len(update.state) or parameter.is_complex():
                continue
            if not all(id(t) in before for t in held):
                continue
            was = [before[id(t)] for t in held]
            numbers = [value_of(state[STEP])] if update.counts else []
            recording.recorder.tape.taken_apart.append(
                TakenApart(
                    op=update.op,
                    inputs=(was[0], value_of(parameter.grad), *was[1:], *numbers, rate),
                    attrs=dict(update.attrs),
                    outputs=tuple(value_of(t) for t in held),
                )
            )


def _declare_state(
    recording: Recording, running: torch.optim.Optimizer, states: Mapping[str, Mapping[str, Any]]
) -> dict[str, Tensor]:
    """Give the twin its state, whose tensors become inputs of the graph; these by label."""
    assert recording.optimizer is not None
    names = {id(original): name for name, original in recording.originals.items()}
    held: dict[str, Tensor] = {}
    for number, group in enumerate(recording.optimizer.param_groups):
        for parameter in group["params"]:
            name = names[id(parameter)]
            if name not in states:
                continue
            state = dict(states[name])
            for key, item in state.items():
                if isinstance(item, Tensor):
                    label, state[key] = _state_input(recording, name, key, item, number)
                    held.setdefault(label, state[key])
            running.state[recording.tensors[name]] = state
    return held


def _initial_state(recording: Recording) -> tuple[dict[str, dict[str, Any]], dict[int, Tensor]]:
    """Return the optimizer's state for each parameter, as a first step makes it, and its rates.

    All on fake tensors. There are no rates where a step with tensors for them fails.
    """
    assert recording.optimizer is not None
    empty = recording.recorder.empty
    fakes: dict[int, Tensor] = {}
    named: dict[int, str] = {}

    def emptied(state: Mapping[str, Any]) -> dict[str, Any]:
        return {k: empty(v) if isinstance(v, Tensor) else v for k, v in state.items()}

    with recording.recorder.paused():
        for name, original in recording.originals.items():
            if recording.values[name].role is Role.PARAMETER:
                fake = as_parameter(empty(original))
                if name in recording.results.gradients:
                    fake.grad = empty(original)
                fakes[id(original)] = fake
                named[id(fake)] = name
        trial = twin(recording.optimizer, fakes)
        for parameter, state in recording.optimizer.state.items():
            if id(parameter) in fakes:
                trial.state[fakes[id(parameter)]] = emptied(state)
        alike = _keep_one_of_each_kind(trial)
        given = groups_with_rates(recording.optimizer)
        for number in given:
            if isinstance(trial.param_groups[number][RATE], Tensor):
                trial.param_groups[number][RATE] = 1e-3  # only types matter; a number will do
        with stepping(), blamed_on(recording.optimizer):
            trial.step()
        states = {named[id(p)]: dict(s) for p, s in trial.state.items() if p.grad is not None}
        for parameter, first in alike:
            if named[id(first)] in states:
                states[named[id(parameter)]] = emptied(states[named[id(first)]])
        rates = {number: torch.empty((), dtype=torch.float64) for number in given}
        for number, rate in rates.items():
            trial.param_groups[number][RATE] = rate
        try:
            with stepping():
                trial.step()
        except Exception:
            recording.constant_rates = True
            rates = {}
    return states, rates


def _keep_one_of_each_kind(trial: torch.optim.Optimizer) -> list[tuple[Tensor, Tensor]]:
    """Leave out the parameters like another of their group without state; each with that one."""
    alike: list[tuple[Tensor, Tensor]] = []
    for group in trial.param_groups:
        kinds: dict[object, Tensor] = {}
        for parameter in group["params"]:
            kind = (tensor_type(parameter), parameter.stride(), parameter.grad is None)
            first = kinds.setdefault(kind, parameter) if parameter not in trial.state else parameter
            if first is not parameter:
                alike.append((parameter, first))
        left_out = {id(parameter) for parameter, _ in alike}
        group["params"] = [p for p in group["params"] if id(p) not in left_out]
    return alike


def _state_input(
    recording: Recording, name: str, key: str, fake: Tensor, group: int
) -> tuple[str, Tensor]:
    """Declare one state tensor; a group's step counters are one input."""
    if key == STEP and fake.dim() == 0:
        label = f"optimizer.{STEP}.{group}"
        if label not in recording.values:
            counter = recording.recorder.empty(fake, torch.float64)
            recording.values[label] = recording.recorder.declare(
                label, counter, Role.OPTIMIZER_STATE
            )
            recording.originals[label] = counter
        counter = recording.recorder.empty(fake, torch.float64)
        stamp(counter, recording.values[label])
        return label, functional(counter)
    label = f"{name}.{key}"
    of = recording.values[name]
    recording.values[label] = recording.recorder.declare(label, fake, Role.OPTIMIZER_STATE, of)
    recording.results.owners[recording.values[label]] = name
    return label, functional(fake)


def _state_after(recording: Recording, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state tensors that an optimizer holds after its step, by label."""
    held: dict[str, Tensor] = {}
    names = {
        id(recording.tensors[name]): name
        for name in recording.originals
        if name in recording.tensors
    }
    groups = {
        id(p): number
        for number, group in enumerate(optimizer.param_groups)
        for p in group["params"]
    }
    for parameter, state in optimizer.state.items():
        for key, item in state.items():
            if isinstance(item, Tensor):
                name = names[id(parameter)]
                shared = key == STEP and item.dim() == 0
                label = f"optimizer.{STEP}.{groups[id(parameter)]}" if shared else f"{name}.{key}"
                held[label] = item
    return held
