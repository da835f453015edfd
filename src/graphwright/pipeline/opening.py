"""Open a session of training: what is to run, and all that can be refused before it does.

Everything that can be refused is refused before a process starts or ranks talk: options that
contradict each other, a plan of another graph or for another number of workers, a checkpoint that
is not there or holds other tensors, variables of torchrun that are missing.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryFile

from graphwright.capture import prepare
from graphwright.errors import InvalidOption, InvalidWorkload, PlanMismatch
from graphwright.ir import UNMERGED, Graph
from graphwright.partition import Progress
from graphwright.pipeline.planning import RunOptions, plan_for
from graphwright.pipeline.session import Session
from graphwright.plans import Plan, check_plan
from graphwright.run import Make, check_workers, examine, kept_inputs, latest, read_variables


def open_session(make: Make, options: RunOptions, *, report: Progress | None = None) -> Session:
    """Capture, check and plan; `Session.run` then trains, or compares.

    `report` is told of the search's steps.
    """
    size, is_joined = _num_workers(options)
    if isinstance(options.plan, Plan) and options.plan.cluster.num_devices != size:
        raise PlanMismatch(
            f"the plan is for {options.plan.cluster.num_devices} devices "
            f"({options.plan.cluster.name}), but {size} workers run; "
            f"start as many, or leave --plan out to plan for local:{size}"
        )
    workload = make("meta")
    if workload.optimizer is None:
        raise InvalidWorkload(
            "there is nothing to train with: return the optimizer too, as in (model, loss_fn, "
            "batch, torch.optim.Adam)"
        )
    passes = options.plan.passes if isinstance(options.plan, Plan) else UNMERGED
    graph = prepare(workload, passes)
    if isinstance(options.plan, Plan):
        _check_graph(options.plan, graph)
    resume, done, notices = _find_checkpoint(options, graph, is_joined)
    # Ranks of torchrun have one plan, that of rank 0, which they get when they have met.
    plan = None if is_joined else plan_for(graph, size, options, options.plan, report)
    return Session(
        make=make,
        graph=graph,
        options=options,
        plan=plan,
        resume=resume,
        num_done=done,
        notices=tuple(notices),
    )


def _num_workers(options: RunOptions) -> tuple[int, bool]:
    """How many workers there are to be, and whether torchrun has started them."""
    variables = read_variables(os.environ)
    if variables is None:
        if options.workers is None:
            raise InvalidOption(
                "say how many processes to start here, as in --workers 4, or start the command "
                "with torchrun: "
                "torchrun --nproc-per-node 4 -m graphwright run ... (none of its variables is set: "
                "RANK, WORLD_SIZE, ...)"
            )
        check_workers(options.workers)
        return options.workers, False
    if options.workers not in (None, variables.size):
        raise InvalidOption(
            f"--workers {options.workers}, but torchrun has started {variables.size} processes; "
            "leave --workers out"
        )
    return variables.size, True


def _check_graph(plan: Plan, graph: Graph) -> None:
    if plan.graph_hash != graph.hash:
        raise PlanMismatch(
            f"the plan was made for graph {plan.graph_hash[:12]}, but this model is "
            f"{graph.hash[:12]}; name the model that was planned, with the "
            "same --batch-size and --small, or plan again"
        )
    check_plan(plan, graph)


def _find_checkpoint(
    options: RunOptions, graph: Graph, is_joined: bool
) -> tuple[Path | None, int, list[str]]:
    """The checkpoint to begin from, which holds the tensors of this graph, how many steps it has
    behind it, and what is to be said about newer ones that are damaged.
    """
    folder = options.checkpoint
    if folder is None:
        return None, 0, []
    _check_folder(folder)
    newest = latest(folder)
    if options.resume or (options.elastic and is_joined and newest is not None):
        return examine(folder, kept_inputs(graph))
    if newest is not None:
        raise InvalidOption(
            f"{folder} holds checkpoints already, the newest is {newest.name}; go on from it with "
            "--resume, or give another folder"
        )
    return None, 0, []


def _check_folder(folder: Path) -> None:
    """Refuse a folder that could not be written to, before the steps that it is to hold."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    what = "is no folder"
    if there.is_dir():
        try:
            with TemporaryFile(dir=there):
                return
        except OSError:
            what = "cannot be written to"
    raise InvalidOption(f"--checkpoint {folder}: {there} {what}; give another folder")
