"""What a step is given: the batch, of which each rank takes its part, and the learning rates.

    whole batch, or this rank's part    --by name-->    inputs.0: [64, 3]    --cut-->    [16, 3]
    optimizer.param_groups              ---------->     optimizer.lr.0

Now and then the ranks compare what they were given: a whole batch, the rates and the values that
training starts from have to be the same on all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from graphwright.aten import (
    learning_rates,
    named_arguments,
    named_tensors,
    rate_label,
    refuse_arrays,
    split_batch,
)
from graphwright.capture import read_arguments
from graphwright.errors import BatchMismatch
from graphwright.ir import Graph, Role
from graphwright.plans import Box, Program
from graphwright.run.processes import RATES, VALUES, World, check_ranks_agree, digest_tensors
from graphwright.run.program import cut

Tensors = Mapping[str, torch.Tensor]


def name_batch(batch: Any, has_targets: bool) -> dict[str, torch.Tensor]:
    """The tensors of a batch by the names of the graph's inputs."""
    inputs, targets = split_batch(batch, has_targets=has_targets)
    refuse_arrays("inputs", inputs)
    refuse_arrays("targets", targets)
    return {**dict(named_tensors("inputs", inputs)), **dict(named_tensors("targets", targets))}


def check_arguments(batch: Any, has_targets: bool, graph: Graph) -> None:
    """Refuse other numbers, flags and words beside the tensors than the graph was captured with."""
    given = named_arguments(*split_batch(batch, has_targets=has_targets))
    captured = read_arguments(graph)
    for name in sorted(given.keys() | captured.keys()):
        if name not in captured or given.get(name) != captured[name]:
            now = repr(given[name]) if name in given else "left out"
            then = f"with {captured[name]!r}" if name in captured else "without it"
            raise BatchMismatch(
                f"{name} is {now}, but the step was captured {then}: what is no tensor is part of "
                "the graph. If it changes from batch to batch, give it as a tensor, in the batch "
                "that is captured too; if not, capture and plan with this value"
            )


def cut_batch(
    given: Tensors, graph: Graph, program: Program, here: World
) -> dict[str, torch.Tensor]:
    """This rank's part of a batch, the whole or that part itself."""
    parts: dict[str, torch.Tensor] = {}
    names = [name for name in graph.inputs if graph.tensors[name].role is Role.INPUT]
    if more := given.keys() - set(names):
        raise BatchMismatch(
            f"unexpected {', '.join(sorted(more))}; the captured batch has {', '.join(names)}"
        )
    for name in names:
        type, box = graph.tensors[name].type, program.homes.get(name)
        if name not in given:
            raise BatchMismatch(f"the batch has no {name} ({type}); it has {', '.join(given)}")
        value = given[name].detach()
        if value.is_meta or value.layout is not torch.strided:
            kind = "on the meta device" if value.is_meta else f"a {value.layout} tensor"
            raise BatchMismatch(f"{name} is {kind}; give a dense tensor with values")
        if str(value.dtype).removeprefix("torch.") != type.dtype:
            raise BatchMismatch(f"{name} is {value.dtype}, the plan is for {type}")
        if box is None:  # on other ranks only; a part of it is empty here
            if value.numel() and tuple(value.shape) != type.shape:
                raise BatchMismatch(
                    f"{name} has shape {list(value.shape)}; give the whole batch, "
                    f"{list(type.shape)}, or an empty tensor: rank {here.rank} has no part of it"
                )
            continue
        local = tuple(stop - start for start, stop in box)
        if tuple(value.shape) == type.shape:
            value = cut(value, box)
        elif tuple(value.shape) != local:
            raise BatchMismatch(
                f"{name} has shape {list(value.shape)}; give the whole batch, {list(type.shape)}, "
                f"or the part of rank {here.rank}, {list(local)}: {_spell(box)}"
            )
        parts[name] = value.to(here.device)
    return parts


def find_rates(
    optimizer: torch.optim.Optimizer, program: Program, device: torch.device
) -> dict[str, torch.Tensor]:
    """The learning rates that a program reads, on its device."""
    rates = {rate_label(n): rate for n, rate in learning_rates(optimizer).items()}
    rates = {name: rate for name, rate in rates.items() if name in program.inputs}
    if device.type == "cpu":
        return {name: rate.cpu() for name, rate in rates.items()}
    # Memory that is not pinned has been read when a copy returns: the GPU need not have come so
    # far.
    return {
        name: rate.to(device, non_blocking=rate.device.type == "cpu" and not rate.is_pinned())
        for name, rate in rates.items()
    }


def compare_given(
    given: Tensors,
    graph: Graph,
    optimizer: torch.optim.Optimizer | None,
    starts_from: str | None,
    check: Callable[[], None],
) -> None:
    """Refuse to go on where the ranks were given different things, or `check` raises on one."""
    words: dict[str, object] = {VALUES: starts_from}
    if optimizer is not None:  # all rates, also those that this rank has no part of
        words[RATES] = [[n, float(rate)] for n, rate in learning_rates(optimizer).items()]
    for name, value in given.items():
        known = graph.tensors.get(name)
        if known is not None:
            is_whole = tuple(value.shape) == known.type.shape
            words[name] = digest_tensors([(name, value)]) if is_whole else None
    check_ranks_agree(words, check)


def _spell(box: Box) -> str:
    return "[" + ", ".join(f"{start}:{stop}" for start, stop in box) + "]"
