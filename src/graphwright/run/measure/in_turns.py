"""Time steps of plans beside those of DistributedDataParallel, in the same processes, in turns.

    round 1   DDP DDP DDP | ours ours ours | ...     the first step of a turn is not timed; whatever
    round 2   DDP DDP DDP | ours ours ours | ...     else the machine does slows all ways alike, and
                                                     turns that it disturbs are made again (`turns`)

Every way begins from the same values. DistributedDataParallel is given each rank's part of the
batch, a plan the whole of it, as a training loop would. Steps follow each other as in training,
without a barrier in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from time import perf_counter

from torch import nn

from graphwright.aten import call, make_optimizer, map_tensors, split_batch
from graphwright.capture import Trainable
from graphwright.plans import Plan
from graphwright.run.measure.turns import Turns
from graphwright.run.processes import World, world
from graphwright.run.training import JOIN_SECONDS, Training, compile_training, make_seeded

DDP = "DistributedDataParallel"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """Seconds of every timed step of every way on one rank, and why a way was not possible.

    `waited` is the share of them in which a rank could have gone on, but other programs had the
    cores; 0 where the system does not say.
    """

    seconds: dict[str, tuple[float, ...]]
    waited: dict[str, float]
    refused: dict[str, str]


def time_in_turns(
    training: Training, plans: Mapping[str, Plan], rounds: int, steps: int
) -> StepTimes:
    """In every worker: time DistributedDataParallel and plans, `steps` in each of `rounds` turns.

    Turns in which others had the cores are made again. `training` says what is trained; its own
    plan does not count.
    """
    import torch.distributed as dist

    here = world(timeout=JOIN_SECONDS)
    ways: dict[str, Callable[[], object]] = {}
    refused: dict[str, str] = {}
    try:
        ddp = _step_of_ddp(make_seeded(training), here)
        for _ in range(2):  # what it does not allow, such as unused parameters, shows in the second
            ddp()
        ways[DDP] = ddp
    except Exception as error:  # whatever PyTorch or the model raises
        refused[DDP] = (str(error).splitlines() or [type(error).__name__])[0]
    for name, plan in plans.items():
        workload = make_seeded(training)
        step = compile_training(replace(training, plan=plan), workload)
        ways[name] = partial(step, workload.batch)
        ways[name]()
    turns = {name: Turns[list[float]](rounds) for name in ways}
    while any(not each.are_enough for each in turns.values()):
        for name, take_step in ways.items():
            if not turns[name].are_enough:
                dist.barrier()
                take_step()
                turns[name].take(partial(_time_each, take_step, steps))
    return StepTimes(
        seconds={name: tuple(chain(*each.that_count)) for name, each in turns.items()},
        waited={name: each.waited for name, each in turns.items()},
        refused=refused,
    )


def _time_each(take_step: Callable[[], object], steps: int) -> list[float]:
    """The seconds of each of some steps."""
    times = []
    for _ in range(steps):
        began = perf_counter()
        take_step()
        times.append(perf_counter() - began)
    return times


def _step_of_ddp(workload: Trainable, here: World) -> Callable[[], object]:
    """A step of an ordinary training loop, over this rank's samples."""
    loss_fn = workload.loss_fn
    batch = map_tensors(lambda t: t.tensor_split(here.size)[here.rank], workload.batch)
    inputs, targets = split_batch(batch, has_targets=loss_fn is not None)
    model = nn.parallel.DistributedDataParallel(workload.model)
    optimizer = make_optimizer(workload.optimizer, workload.optimizer_options, model)

    def take_step() -> object:
        optimizer.zero_grad()
        output = call(model, inputs)
        loss = output if loss_fn is None else loss_fn(output, targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return take_step
