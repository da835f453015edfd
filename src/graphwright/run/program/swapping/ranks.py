"""A rank's iterations under a memory plan: the pieces of its program, on tensors in an arena.

    value in the arena --piece of the program--> result --copied--> its place in the arena

A piece is built as a whole program is (`module`): an instruction with the views that it reads.
Pieces reach other ranks and draw by a seed, so they are not recorded on a GPU. A transfer has ended
when its piece has, so its values may leave the arena behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, fx

from graphwright.errors import ReplayError
from graphwright.memory import Piece, ProgramProblem
from graphwright.plans import MemoryPlan, Run
from graphwright.run.program.module import build_piece
from graphwright.run.program.swapping.executor import Executor, InTurn
from graphwright.run.program.swapping.placing import copy_results
from graphwright.run.program.targets import Transport
from graphwright.run.random import Keys


class RankExecutor(Executor):
    """Runs a rank's program; called with what a step is given, it returns results by name."""

    def __init__(
        self,
        given: ProgramProblem,
        plan: MemoryPlan,
        links: Transport | None,
        device: torch.device,
    ) -> None:
        super().__init__(given.problem, given.types, plan, device)
        self.given, self.links = given, links
        self.modules = {name: self._build(piece) for name, piece in given.pieces.items()}
        self.shows = {name: self._build(piece) for name, piece in given.results.items()}
        self.seed: int | Keys = 0

    def __call__(
        self, given: Mapping[str, Tensor], seed: int | Keys
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """One iteration; updates stay where the plan keeps them, so none are returned."""
        self.give(given)
        self.seed = seed
        self.run()
        return {}, {name: self._result(name) for name in self.shows}

    def _build(self, piece: Piece) -> fx.GraphModule:
        rank, made = self.given.program.rank, tuple(piece.made)
        names = {value: str(value) for value in piece.given}
        return build_piece(rank, piece.instructions, names, made, self.links, self.device)

    def _compute(self, action: Run) -> InTurn:
        piece, module = self.given.pieces[action.name], self.modules[action.name]
        views = {str(value): self._on_device(name) for value, name in piece.given.items()}
        storages, poison = list(piece.made.values()), self._poison(action.places)

        def results() -> Sequence[Tensor]:
            try:
                made: Sequence[Tensor] = module.forward(dict(views), self.seed)
            except (TypeError, IndexError) as error:
                raise ReplayError(f"{piece.instructions[-1]} failed: {error}") from error
            return made

        first = results()
        homes = self._homes(storages, first, action.places)
        copy_results(first, homes, poison)
        return lambda turn: copy_results(results(), homes, poison)

    def _result(self, name: str) -> Tensor:
        piece = self.given.results[name]
        held = {str(value): self.take(storage) for value, storage in piece.given.items()}
        (shown,) = self.shows[name](held, self.seed)
        result: Tensor = shown.to(self.device, copy=True)
        return result
