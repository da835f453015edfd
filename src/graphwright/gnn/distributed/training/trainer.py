"""One worker's share of full-graph training: a pass over its part, then the sum of all gradients.

    loss = sum over workers of (sum over own training vertices of the vertex's loss) / their number

So every worker's gradient is its term of the gradient of the mean, and the sum over workers is what
a single process computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphwright.gnn.distributed.cache import DeviceCache
from graphwright.gnn.distributed.training.batch_norm import share_statistics
from graphwright.gnn.distributed.training.clock import LayerClock
from graphwright.gnn.distributed.training.part import PartGraph
from graphwright.gnn.storage import DGLError
from graphwright.run import RowLinks

Loss = Callable[[Tensor, Tensor], Tensor]
"""Of outputs and labels, the loss of each vertex."""
MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


class InvalidTraining(DGLError):
    """What training was given does not fit together.

    The graph needs a feature and a label of each vertex under the names that were given, and a loss
    function returns one number for each vertex: cross_entropy(..., reduction="none").
    """


def cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """The cross entropy of each vertex."""
    return F.cross_entropy(outputs, labels, reduction="none")


def adam(parameters: Iterable[nn.Parameter], lr: float = 0.01) -> torch.optim.Optimizer:
    """Adam with the learning rate that is usual for graph networks."""
    return torch.optim.Adam(parameters, lr=lr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Names of features in the graph, and how the model learns."""

    features: str = "feat"
    labels: str | None = "label"
    masks: Mapping[str, str]
    """The names of boolean features: "train" is learned from, accuracy is told for each."""
    loss: Loss = cross_entropy
    optimizer: MakeOptimizer = adam


class Trainer:
    """A model and one part of a graph."""

    def __init__(
        self, model: nn.Module, links: RowLinks, problem: Problem, cache: DeviceCache | None = None
    ) -> None:
        self.model, self.links, self.problem, self.cache = model, links, problem, cache
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = problem.optimizer(self.parameters) if self.parameters else None
        self.part: PartGraph | None = None
        self._num_learned = 0.0

    def take(self, part: PartGraph) -> None:
        """Go on with another part; all workers do."""
        share_statistics(self.model, part.halo)
        part.halo.remembers = self.cache is None  # rows that are kept are not in the cache's books
        self.part = part
        train = self._rows("train")
        self._num_learned = float(self.links.sum([train.sum().double()])[0])
        if self.cache is not None:
            part.make_forms()
            self.cache.lend(part.lent(self.problem.features))

    @property
    def clock(self) -> LayerClock:
        """The times of the last pass."""
        assert self.part is not None
        return self.part.halo.clock

    @property
    def received_bytes(self) -> int:
        """What came from other workers in the last pass."""
        assert self.part is not None
        return self.part.halo.received_bytes

    def step(self) -> float:
        """One epoch: the loss before its update, the same on all workers."""
        assert self.part is not None and self.problem.labels is not None
        self.check()
        self.model.train()
        with self._in_cache("train"):
            loss = self._gradients()
        self._share_gradients()
        assert self.optimizer is not None
        self.optimizer.step()
        return float(self.links.sum([loss.double()])[0])

    def _gradients(self) -> Tensor:
        """Forward and backward: this worker's term of the loss."""
        assert self.part is not None and self.problem.labels is not None
        halo, train = self.part.halo, self._rows("train")
        halo.start()
        outputs = self._forward()
        labels = self.part.ndata[self.problem.labels]
        losses = self.losses(outputs[train], labels[train])
        if losses.dim() == 0 or len(losses) != int(train.sum()):
            raise InvalidTraining(
                f"the loss function returned shape {list(losses.shape)} for {int(train.sum())} "
                'vertices; it returns a number for each, as with reduction="none"'
            )
        loss = losses.sum() / self._num_learned
        del outputs, losses  # their memory is free as soon as autograd needs them no more
        self._differentiate(halo.anchored(loss))
        return loss.detach()

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The loss function, which says what it was given where it raises."""
        try:
            return self.problem.loss(outputs, labels)
        except (IndexError, RuntimeError, TypeError, ValueError) as error:
            span = f" from {labels.min()} to {labels.max()}" if labels.numel() else ""
            raise InvalidTraining(
                f"the loss function raised {type(error).__name__}: {error}. It was given outputs "
                f"{list(outputs.shape)} {outputs.dtype} and labels {list(labels.shape)} "
                f"{labels.dtype}{span}; labels of classes are whole numbers below the number of "
                "outputs, and loss= takes another function"
            ) from error

    def check(self) -> None:
        """Refuse a model or a mask of which nothing can be learned."""
        if self.optimizer is None:
            raise InvalidTraining("the model has no parameters to train")
        if not self._num_learned:
            raise InvalidTraining("no vertex is to be learned from: the training mask is empty")

    def update(self, loss: Tensor) -> None:
        """Change the parameters by the gradient of all workers' losses; the clock stops before."""
        assert self.optimizer is not None
        self._differentiate(loss)
        self._share_gradients()
        self.optimizer.step()

    def _differentiate(self, loss: Tensor) -> None:
        assert self.optimizer is not None
        self.optimizer.zero_grad()
        loss.backward()
        self.clock.stop()

    @contextmanager
    def _in_cache(self, name: str) -> Iterator[None]:
        """A pass under the limit on the device's memory, if there is one."""
        if self.cache is None:
            yield
            return
        self.cache.fixed = self._lasting_bytes()
        with self.cache.run(name):
            yield

    def _lasting_bytes(self) -> int:
        """What stays on the device all the time: parameters, gradients, optimizer, the edges."""
        assert self.part is not None
        held = [*self.model.parameters(), *self.model.buffers()]
        held += self.part.lasting(self.problem.features)
        held += [p.grad for p in self.parameters if p.grad is not None]
        if self.optimizer is not None:
            states = self.optimizer.state.values()
            held += [x for each in states for x in each.values() if isinstance(x, Tensor)]
        storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in held}
        return sum(storages.values())

    @torch.no_grad()
    def evaluate(self) -> tuple[Tensor, dict[str, float]]:
        """The outputs of own vertices, and the share of right ones in each mask, of all workers."""
        assert self.part is not None
        self.model.eval()
        with self._in_cache("evaluate"):
            self.part.halo.start()
            outputs = self._forward()
        self.part.halo.clock.stop()
        if self.problem.labels is None:
            return outputs, {}
        labels = self.part.ndata[self.problem.labels]
        if labels.dim() != 1 or labels.is_floating_point() or outputs.dim() != 2:
            return outputs, {}
        right = outputs.argmax(1) == labels
        rows = {name: self._rows(name) for name in self.problem.masks}
        counts = torch.tensor(
            [[float((right & mask).sum()), float(mask.sum())] for mask in rows.values()],
            dtype=torch.float64, device=outputs.device,
        )  # fmt: skip
        whole = self.links.sum([counts])[0].tolist() if rows else []
        shares = {n: r / max(c, 1) for n, (r, c) in zip(rows, whole, strict=True)}
        return outputs, shares

    def _forward(self) -> Tensor:
        assert self.part is not None
        features = self.part.ndata[self.problem.features]
        outputs: Any = self.model(self.part, features)
        if not isinstance(outputs, Tensor) or len(outputs) != self.part.num_nodes():
            shape = list(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            raise InvalidTraining(
                f"the model returned {shape} for {self.part.num_nodes()} vertices; it is called "
                "as model(graph, features) and returns a row for each vertex"
            )
        return outputs

    def _rows(self, mask: str) -> Tensor:
        assert self.part is not None
        name = self.problem.masks.get(mask)
        if name is None:
            return torch.ones(self.part.num_nodes(), dtype=torch.bool, device=self.part.device)
        rows: Tensor = self.part.ndata[name]
        return rows.bool()

    def _share_gradients(self) -> None:
        """Sum gradients over workers; a parameter that none has used keeps none."""
        used = torch.tensor([float(p.grad is not None) for p in self.parameters])
        used = self.links.sum([used.to(self.parameters[0].device)])[0]
        kinds: dict[torch.dtype, list[nn.Parameter]] = {}
        for parameter, count in zip(self.parameters, used.tolist(), strict=True):
            if count:
                kinds.setdefault(parameter.dtype, []).append(parameter)
        for group in kinds.values():
            terms = [torch.zeros_like(p) if p.grad is None else p.grad for p in group]
            for parameter, total in zip(group, self.links.sum(terms), strict=True):
                parameter.grad = total.contiguous()
