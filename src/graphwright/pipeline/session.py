"""A run of workers: those that are started here, and again when one is lost, or those of torchrun,
of which this process is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from graphwright.capture import prepare
from graphwright.errors import DoesNotFit, GraphwrightError
from graphwright.files import scratch_folder
from graphwright.ir import Graph
from graphwright.pipeline.planning import RunOptions, plan_for
from graphwright.plans import Plan
from graphwright.run import (
    JOIN_SECONDS,
    Attempt,
    Make,
    Outcome,
    Restart,
    StepRecord,
    Training,
    compare,
    doubled,
    elastic,
    gather_results,
    latest,
    launch,
    read_step_log,
    same_program,
    train,
    world,
)

STEPS, CHECKED_STEPS = 10, 3
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A run that was checked and can begin; without a plan, this process is one of torchrun's."""

    make: Make
    graph: Graph
    options: RunOptions
    plan: Plan | None
    resume: Path | None
    num_done: int
    notices: tuple[str, ...] = ()
    """What was noticed while opening it: checkpoints that are damaged."""

    @property
    def num_steps(self) -> int:
        """Steps in all, those of the checkpoint included."""
        return self.options.steps or (CHECKED_STEPS if self.options.check else STEPS)

    def run(self, say: Say = print) -> Outcome:
        """Train, or compare; what is worth telling goes to `say`, on one rank."""
        if self.plan is None:
            return self._join(say)
        self._introduce(self.plan, self.resume, say)
        if self.options.check:
            results = launch(self.plan.cluster.num_devices)(compare, *self._comparison(self.plan))
            return Outcome(plan=self.plan, comparison=results[0])
        if self.num_done >= self.num_steps:
            return self._outcome(self.plan, [], ())
        with scratch_folder() as folder:
            return self._start(self.plan, folder / "steps", say)

    def _start(self, plan: Plan, step_log: Path, say: Say) -> Outcome:
        """Train on workers that are started here, and again on fewer where that was asked for."""
        plans, restarts = [plan], list[Restart]()

        def arguments(attempt: Attempt) -> tuple[object, ...]:
            if attempt.failure is not None:
                restarts.append(Restart.after(attempt))
                say(restarts[-1].line)
                plans.append(self._plan_again(attempt))
                self._introduce(plans[-1], attempt.checkpoint, say)
            return (self._training(plans[-1], attempt.checkpoint, step_log),)

        if self.options.elastic:
            assert self.options.checkpoint is not None
            go = elastic(plan.cluster.num_devices, self.options.checkpoint)
            go(train, arguments, checkpoint=self.resume)
        else:
            launch(plan.cluster.num_devices)(train, self._training(plan, self.resume, step_log))
        return self._outcome(plans[-1], read_step_log(step_log), tuple(restarts))

    def _join(self, say: Say) -> Outcome:
        """Take part as a rank; the first one plans for all."""
        here, options = world(timeout=JOIN_SECONDS), self.options
        is_first = here.rank == 0

        def planned() -> str:  # JSON: ranks exchange nothing that could be executed
            plan = plan_for(self.graph, here.size, options, options.plan) if is_first else None
            return "" if plan is None else plan.to_json()

        plan = Plan.from_json(gather_results(planned)[0])
        if is_first:
            self._introduce(plan, self.resume, say)
        if options.check:
            comparison = compare(*self._comparison(plan))
            return Outcome(plan=plan, comparison=comparison, is_first=is_first)
        return self._outcome(plan, train(self._training(plan, self.resume, None)), (), is_first)

    def _plan_again(self, attempt: Attempt) -> Plan:
        """For the remaining workers: a plan of the same name, or the fastest if one was given."""
        name = self.options.plan if isinstance(self.options.plan, str) else "fastest"
        try:
            return plan_for(self.graph, attempt.num_workers, self.options, name)
        except DoesNotFit as error:
            raise error from attempt.failure

    def _training(self, plan: Plan, resume: Path | None, step_log: Path | None) -> Training:
        options = self.options
        return Training(
            make=self.make,
            graph=self.graph,
            plan=plan,
            num_steps=self.num_steps,
            seed=options.seed,
            checkpoint=options.checkpoint,
            every=options.every,
            resume=None if resume is None else options.checkpoint,
            step_log=step_log,
            quiet=options.quiet,
            torch_compile=options.torch_compile,
        )

    def _comparison(self, plan: Plan) -> tuple[Training, bool]:
        """What is compared: in float64, unless the model makes another graph of it."""
        training = self._training(plan, None, None)
        try:
            graph = prepare(doubled(self.make("meta")), plan.passes)
        except (GraphwrightError, RuntimeError):
            return training, False
        precise = same_program(plan, self.graph, graph)
        if precise is None:
            return training, False
        return replace(training, graph=graph, plan=precise), True

    def _introduce(self, plan: Plan, resume: Path | None, say: Say) -> None:
        figures, size = plan.figures, plan.cluster.num_devices
        predicted = "" if figures is None else f", predicted {figures}"
        name = self.options.plan if isinstance(self.options.plan, str) else plan.algorithm
        made = "" if plan.algorithm in (name, "frontier") else f" (that of {plan.algorithm})"
        say(f"{size} worker{'s' * (size != 1)}, plan {name}{made}{predicted}")
        if resume is not None:
            for notice in self.notices:
                say(notice)
            say(f"from {resume}")

    def _outcome(
        self,
        plan: Plan,
        steps: list[StepRecord],
        restarts: tuple[Restart, ...],
        is_first: bool = True,
    ) -> Outcome:
        folder = self.options.checkpoint
        return Outcome(
            plan=plan,
            steps=tuple(steps),
            restarts=restarts,
            checkpoint=None if folder is None else latest(folder),
            is_first=is_first,
        )
