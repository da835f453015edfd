"""Train or apply a graph network on several workers, in one call.

    trained = gnn.distribute(model, graph, workers=4, epochs=100)      the model has learned
    outputs = gnn.predict(model, other, workers=4, cost=trained.cost)  a row for each vertex

Under torchrun, or inside gw.launch, each process makes the same call and `workers` is their number;
otherwise processes of this machine are started. Either way each holds a range of vertices, and
results are those of a single process.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from graphwright.errors import RanksDiffer, WorkerFailed
from graphwright.files import scratch_folder
from graphwright.gnn.distributed.assign import metis_partition_assignment
from graphwright.gnn.distributed.balance import Bounds, CostModel, check_bounds
from graphwright.gnn.distributed.cache import CACHING
from graphwright.gnn.distributed.checkpoint import Checkpoint, newest
from graphwright.gnn.distributed.training.follow import follow, write_epoch
from graphwright.gnn.distributed.training.independence import check_independence
from graphwright.gnn.distributed.training.sampled import Sampling
from graphwright.gnn.distributed.training.store import GraphStore, check_types
from graphwright.gnn.distributed.training.trainer import (
    InvalidTraining,
    Loss,
    MakeOptimizer,
    Problem,
    adam,
    cross_entropy,
)
from graphwright.gnn.distributed.training.worker import (
    STRATEGIES,
    Epoch,
    Task,
    WorkerResult,
    train_part,
)
from graphwright.gnn.graph import DGLGraph
from graphwright.machine import parse_quantity
from graphwright.run import (
    Attempt,
    RankLost,
    RowLinks,
    digest_tensors,
    gather_results,
    launch,
    read_variables,
    world,
)
from graphwright.run import elastic as start_elastic

MASKS = {"train": "train_mask", "val": "val_mask", "test": "test_mask"}
"""DGL's names of the vertices to learn from, to tune by and to judge by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A training that has ended: its epochs, the last cut, what was learned of costs, outputs."""

    epochs: tuple[Epoch, ...]
    bounds: Bounds
    cost: CostModel | None
    outputs: Tensor
    """The model's output for each vertex, after the last epoch."""
    state: Mapping[str, Tensor]
    """A copy of the trained model's `state_dict()`."""
    lost: tuple[str, ...] = ()
    """How each worker ended that was lost, where training went on without it."""

    @property
    def losses(self) -> list[float]:
        """The loss of each epoch."""
        return [epoch.loss for epoch in self.epochs]

    @property
    def epoch_seconds(self) -> float:
        """The median time of an epoch on the last cut."""
        return median(e.seconds for e in self.epochs if e.bounds == self.bounds or len(e.busy) == 1)

    def to_dict(self) -> dict[str, Any]:
        """All but tensors, as data for JSON."""
        return {
            "workers": len(self.bounds) - 1,
            "bounds": list(self.bounds),
            "lost": list(self.lost),
            "cost": None if self.cost is None else self.cost.to_dict(),
            "epochs": [
                asdict(epoch) | {"slowest": epoch.slowest, "imbalance": epoch.imbalance}
                for epoch in self.epochs
            ],
        }

    def time_to(self, accuracy: float, mask: str = "test") -> float | None:
        """Seconds of training until so many vertices of a mask were right; None if never."""
        reached = (e.since_start for e in self.epochs if e.accuracy.get(mask, 0.0) >= accuracy)
        return next(reached, None)


def distribute(
    model: nn.Module,
    graph: DGLGraph,
    *,
    workers: int | None = None,
    epochs: int = 100,
    features: str = "feat",
    labels: str = "label",
    masks: Mapping[str, str] | None = None,
    loss: Loss = cross_entropy,
    optimizer: MakeOptimizer = adam,
    partition: str | Sequence[int] = "learned",
    order: str | Tensor | None = None,
    cost: CostModel | None = None,
    sampling: Sampling | None = None,
    evaluate_every: int = 0,
    horizon: int | None = None,
    memory: int | str | None = None,
    caching: str = "least",
    seed: int = 0,
    check: bool = True,
    threads: int | None = None,
    timeout: float | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: int = 10,
    resume: bool = False,
    elastic: bool = False,
) -> Trained:
    """Train `model(graph, features)` on the whole graph, in place, on several workers.

    `partition` is "learned", "edges", "vertices" or bounds of ranges; `order` "metis", or a vertex
    for each place, numbers vertices anew so that ranges have fewer edges between them. `loss` is of
    each vertex; `masks` name boolean features, by default those of DGL's datasets. With `sampling`,
    an epoch is a pass over mini-batches of sampled neighbourhoods instead. `horizon` says for how
    many epochs a better cut will be of use, where this training is the beginning of a longer one.
    With `memory` each worker's device holds so much at most, and the rest waits on the host;
    `caching` says what stays: "least" (the fewest bytes are copied), "recent" or "nothing".
    A model that looks across vertices other than along edges is refused (NotDistributable), by a
    comparison on a few vertices before workers start; `check=False` leaves that out.

    `checkpoint` is a folder for checkpoints, written after each `every` epochs and the last;
    `resume` goes on from the newest of them, with any number of workers. If a worker is lost,
    `elastic` goes on with those that are left, from the newest checkpoint, rather than end.
    """
    _check_types(model, graph, cost, workers)
    _check_learning(loss, optimizer, sampling)
    _check_keeping(checkpoint, every, resume, elastic, partition)
    for option, number in (("epochs", epochs), ("evaluate_every", evaluate_every), ("seed", seed)):
        if not _is_count(number):
            raise InvalidTraining(f"{option}={number!r}; give a whole number from 0 upwards")
    named = _masks(graph, masks)
    for name in (features, labels, *named.values()):
        if name not in graph.ndata:
            raise InvalidTraining(
                f"the graph has no feature '{name}' of nodes; it has {sorted(graph.ndata)}. Give "
                "the names as features=, labels= and masks="
            )
    problem = Problem(features=features, labels=labels, masks=named, loss=loss, optimizer=optimizer)
    if epochs and not any(parameter.requires_grad for parameter in model.parameters()):
        raise InvalidTraining("the model has no parameters to train")
    _check_masks(graph, named)
    if epochs and "train" in named and not graph.ndata[named["train"]].any():
        raise InvalidTraining(
            f"no vertex is to be learned from: the training mask is empty ('{named['train']}')"
        )
    bounds = _checked(partition, graph, workers)
    task = Task(
        problem=problem, epochs=epochs, partition=bounds, cost=cost, sampling=sampling,
        evaluate_every=evaluate_every, horizon=horizon, seed=seed, every=every,
        memory=_memory(memory, caching, sampling), caching=caching,
        directory=None if checkpoint is None else Path(checkpoint).absolute(),
        begin=_beginning(checkpoint, resume),
    )  # fmt: skip
    if task.begin is not None:
        size = graph.num_nodes(), graph.num_edges()
        Checkpoint.load(task.begin).check(model, task.begin, size)
    places = _order(graph, order, workers)
    store = GraphStore.of(graph, places)
    if check and _num_workers(workers) > 1:
        modes = (True, False) if sampling is None else (False,)  # mini-batches are seen whole
        check_independence(model, store, features, modes=modes)
    how = _Processes(workers, threads, timeout, elastic)
    results, lost = _run(model, store, task, how, on_epoch)
    first = results[0]
    if first.state is not None:
        model.load_state_dict(first.state)
    outputs = torch.cat([result.outputs for result in results])
    if places is not None:
        outputs = torch.empty_like(outputs).index_copy_(0, places, outputs)
    return Trained(
        epochs=first.epochs, bounds=first.bounds, cost=first.cost, outputs=outputs,
        state={name: value.detach().cpu().clone() for name, value in model.state_dict().items()},
        lost=lost,
    )  # fmt: skip


def predict(
    model: nn.Module,
    graph: DGLGraph,
    *,
    workers: int | None = None,
    features: str = "feat",
    partition: str | Sequence[int] = "learned",
    cost: CostModel | None = None,
    check: bool = True,
    threads: int | None = None,
    timeout: float | None = None,
) -> Tensor:
    """The model's output for each vertex of a graph; `cost` is what training learned of costs.

    `check` is that of `distribute`.
    """
    _check_types(model, graph, cost, workers)
    if features not in graph.ndata:
        raise InvalidTraining(f"the graph has no feature '{features}': {sorted(graph.ndata)}")
    problem = Problem(features=features, labels=None, masks={})
    bounds = _checked(partition, graph, workers)
    task = Task(problem=problem, epochs=0, partition=bounds, cost=cost)
    store = GraphStore.of(graph)
    if check and _num_workers(workers) > 1:
        check_independence(model, store, features, modes=(False,))
    results, _ = _run(model, store, task, _Processes(workers, threads, timeout), None)
    return torch.cat([result.outputs for result in results])


def _num_workers(workers: int | None) -> int:
    variables = read_variables(os.environ)
    if variables is not None:
        return variables.size
    return 1 if workers is None else workers


@dataclass(frozen=True, slots=True)
class _Processes:
    """How workers are started."""

    workers: int | None
    threads: int | None
    timeout: float | None
    is_elastic: bool = False


Given = Callable[[Path | None, Path | None], tuple[object, ...]]
"""Makes the arguments of workers: of the checkpoint to begin from and the folder for others."""


def _run(
    model: nn.Module, store: GraphStore, task: Task, how: _Processes,
    on_epoch: Callable[[Epoch], None] | None,
) -> tuple[list[WorkerResult], tuple[str, ...]]:  # fmt: skip
    """The results of all workers by rank, and who was lost.

    Under torchrun, the result of this one alone, with all outputs.
    """
    if read_variables(os.environ) is not None:
        return [_as_one_of_many(model, store, task, how.workers, on_epoch)], ()
    with scratch_folder() as folder:
        store.save(folder)
        log = folder / "epochs.jsonl"

        def given(begin: Path | None, directory: Path | None) -> tuple[object, ...]:
            return model, replace(task, begin=begin, directory=directory), str(folder), str(log)

        with follow(log, on_epoch):
            return _start(_worker, given, how, task.begin, task.directory, folder)


def _start(
    work: Callable[..., Any], given: Given, how: _Processes, begin: Path | None,
    directory: Path | None, folder: Path,
) -> tuple[list[Any], tuple[str, ...]]:  # fmt: skip
    """Call `work` in all workers; if one is lost, again in one fewer, where that is wanted.

    What a worker refuses is raised as what it is, rather than as the failure of a worker.
    """
    try:
        return _started(work, given, how, begin, directory, folder)
    except WorkerFailed as failed:
        if failed.error is None or isinstance(failed.error, RankLost):
            raise
        raise failed.error from failed


def _started(
    work: Callable[..., Any], given: Given, how: _Processes, begin: Path | None,
    directory: Path | None, folder: Path,
) -> tuple[list[Any], tuple[str, ...]]:  # fmt: skip
    count = 1 if how.workers is None else how.workers
    if not how.is_elastic:
        start = launch(count, threads=how.threads, timeout=how.timeout)
        return start(work, *given(begin, directory)), ()
    place, lost = directory or folder / "checkpoints", []

    def prepare(attempt: Attempt) -> tuple[object, ...]:
        if attempt.failure is not None:
            lost.append(str(attempt.failure).partition("\n")[0])
        return given(attempt.checkpoint, place)

    again = start_elastic(count, place, threads=how.threads, timeout=how.timeout, newest=newest)
    return again(work, prepare, checkpoint=begin), tuple(lost)


def _worker(model: nn.Module, task: Task, folder: str, log: str) -> WorkerResult:
    here = world()
    store, tell = GraphStore.load(Path(folder)), partial(write_epoch, Path(log))
    return train_part(model, store, RowLinks.join(here), task, here.device, tell)


def distribute_made(
    make: Callable[[], tuple[nn.Module, DGLGraph]],
    *,
    workers: int | None = None,
    threads: int | None = None,
    timeout: float | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    elastic: bool = False,
    **options: Any,
) -> Trained:
    """`distribute` for a model whose class other processes cannot import: each calls `make`."""
    if read_variables(os.environ) is not None:
        return _make_and_train(make, workers, {**options, "elastic": elastic}, on_epoch)
    partition, every = options.get("partition", "learned"), options.get("every", 10)
    checkpoint, resume = options.get("checkpoint"), bool(options.get("resume"))
    _check_keeping(checkpoint, every, resume, elastic, partition)
    directory = None if checkpoint is None else Path(checkpoint).absolute()
    with scratch_folder() as folder:
        log = folder / "epochs.jsonl"

        def given(begin: Path | None, directory: Path | None) -> tuple[object, ...]:
            kept = {"checkpoint": directory, "resume": begin is not None}
            return make, {**options, **kept}, str(log)

        with follow(log, on_epoch):
            how = _Processes(workers, threads, timeout, elastic)
            begin = _beginning(checkpoint, resume)
            results, lost = _start(_made, given, how, begin, directory, folder)
    first: Trained = results[0]
    return replace(first, lost=lost)


def _made(make: Any, options: Mapping[str, Any], log: str) -> Trained:
    return _make_and_train(make, None, options, partial(write_epoch, Path(log)))


def _make_and_train(
    make: Any, workers: int | None, options: Mapping[str, Any], tell: Any
) -> Trained:
    seed = options.get("seed", 0)
    if _is_count(seed):  # what `make` draws is then the same in all processes
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
    model, graph = make()
    return distribute(model, graph, workers=workers, on_epoch=tell, **options)


def _as_one_of_many(
    model: nn.Module, store: GraphStore, task: Task, workers: int | None,
    on_epoch: Callable[[Epoch], None] | None,
) -> WorkerResult:  # fmt: skip
    here = world()
    if workers not in (None, here.size):
        raise InvalidTraining(
            f"workers={workers}, and this is one of {here.size} processes; leave workers out, or "
            "start as many processes"
        )
    links = RowLinks.join(here)
    try:
        _check_same(model, store)
        with _keeping_modes(model):
            result = train_part(model, store, links, task, here.device, on_epoch)
        sizes = torch.tensor(result.bounds).diff().tolist()
        counts = [0 if rank == here.rank else sizes[here.rank] for rank in range(here.size)]
        others = [0 if rank == here.rank else size for rank, size in enumerate(sizes)]
        mine = result.outputs.to(here.device)
        arrived = links.trade(mine.repeat(here.size - 1, *[1] * (mine.dim() - 1)), counts, others)
        parts = list(arrived.wait().cpu().split(others))
        parts[here.rank] = result.outputs
        return replace(result, outputs=torch.cat(parts))
    finally:
        links.leave()


def _check_same(model: nn.Module, store: GraphStore) -> None:
    """Refuse processes that have made different graphs or models, each by itself."""

    def digests() -> list[tuple[str, str]]:
        size = f"graph ({store.num_nodes:,} vertices, {store.num_edges:,} edges)"
        values = model.state_dict().items()
        return [(size, digest_tensors(store.named().items())), ("model", digest_tensors(values))]

    first, *others = gather_results(digests)
    for rank, other in enumerate(others, 1):
        for (one, mine), (another, theirs) in zip(first, other, strict=True):
            if mine != theirs:
                raise RanksDiffer(
                    f"rank 0 has made one {one}, and rank {rank} another {another}. Seed random, "
                    "NumPy and torch equally before they draw, read it from a file, or give the "
                    "model and the graph to one call of distribute(workers=...)"
                )


@contextmanager
def _keeping_modes(model: nn.Module) -> Iterator[None]:
    """Leave every module in training mode or not, as it was."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, is_training in modes:
            module.training = is_training


def _check_types(model: Any, graph: Any, cost: Any, workers: Any) -> None:
    """Refuse what is not of the type that it has to be, before any worker starts."""
    for name, value, kind in (("model", model, nn.Module), ("graph", graph, DGLGraph)):
        if not isinstance(value, kind):
            raise InvalidTraining(
                f"the {name} is a {type(value).__name__}, and it has to be a {kind.__name__}"
                + (
                    "; dgl.graph, dgl.from_networkx and dgl.data.from_pyg make one"
                    if name == "graph"
                    else ""
                )
            )
    check_types(graph)
    lazy = [name for name, p in model.named_parameters() if is_lazy(p)]
    if lazy:
        raise InvalidTraining(
            f"the model's {', '.join(lazy)} have no size yet; call model(graph, features) once "
            "before, which makes the parameters of lazy modules"
        )
    if not isinstance(cost, CostModel | None):
        raise InvalidTraining(
            f"cost is a {type(cost).__name__}; give trained.cost, or CostModel.from_dict(...)"
        )
    if workers is not None and (not _is_count(workers) or workers < 1):
        raise InvalidTraining(f"workers={workers!r}; give a whole number from 1 upwards")


def _check_learning(loss: Any, optimizer: Any, sampling: Any) -> None:
    for name, value, example in (
        ("loss", loss, 'partial(F.cross_entropy, reduction="none")'),
        ("optimizer", optimizer, "partial(torch.optim.Adam, lr=0.01)"),
    ):
        if not callable(value) or isinstance(value, torch.optim.Optimizer):
            raise InvalidTraining(
                f"{name} is a {type(value).__name__}; give a function, as {name}={example}"
            )
    if not isinstance(sampling, Sampling | None):
        raise InvalidTraining(
            f"sampling={sampling!r}; give graphwright.gnn.distributed.Sampling(fanouts=(10, 10))"
        )


def _memory(memory: int | str | None, caching: str, sampling: Sampling | None) -> int | None:
    """Bytes that each device may hold."""
    if caching not in CACHING:
        raise InvalidTraining(f"caching={caching!r}; it is one of {', '.join(CACHING)}")
    if memory is None:
        return None
    if sampling is not None:
        raise InvalidTraining(
            "memory= is for training on the whole graph; give smaller mini-batches with sampling="
        )
    nbytes = parse_quantity(memory, "size", "memory")
    if not _is_count(nbytes) or not nbytes:
        raise InvalidTraining(f'memory={memory!r}; give bytes, or a size such as "2GB"')
    return int(nbytes)


def _check_keeping(
    checkpoint: Any, every: Any, resume: bool, is_elastic: bool, partition: Any
) -> None:
    if checkpoint is not None and not isinstance(checkpoint, str | os.PathLike):
        raise InvalidTraining(f"checkpoint={checkpoint!r}; give a folder")
    if not _is_count(every) or every < 1:
        raise InvalidTraining(f"every={every!r}; give a number of epochs from 1 upwards")
    if resume and checkpoint is None:
        raise InvalidTraining("resume=True needs the folder of the checkpoints: checkpoint=")
    if is_elastic and not isinstance(partition, str):
        raise InvalidTraining(
            f"partition={partition!r} is for {len(partition) - 1} workers, and elastic training "
            f"goes on with fewer; give one of {', '.join(STRATEGIES)}"
        )
    if is_elastic and read_variables(os.environ) is not None:
        raise InvalidTraining(
            "elastic=True starts processes again, and these were started by another; give "
            "checkpoint= and resume=True, and let torchrun restart them (--max-restarts)"
        )


def _beginning(checkpoint: Any, resume: bool) -> Path | None:
    """The checkpoint to go on from; others in the folder are refused without `resume`."""
    found = None if checkpoint is None else newest(checkpoint)
    if found is not None and not resume:
        raise InvalidTraining(
            f"{checkpoint} holds checkpoints already, the newest is {found.name}; go on from it "
            "with resume=True (--resume), or give another folder"
        )
    return None if found is None else found.absolute()


def _is_count(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 0)


def _checked(partition: str | Sequence[int], graph: DGLGraph, workers: int | None) -> str | Bounds:
    """A way to cut the graph, or bounds, refused before any worker starts."""
    if not isinstance(partition, str | Sequence | np.ndarray | Tensor):
        raise InvalidTraining(
            f"partition={partition!r}; give one of {', '.join(STRATEGIES)}, or bounds as (0, 10, "
            "20)"
        )
    if not isinstance(partition, str):
        size = len(partition) - 1 if workers is None else workers
        return check_bounds(partition, graph.num_nodes(), size)
    if partition not in STRATEGIES:
        raise InvalidTraining(
            f"there is no partition {partition!r}; it is one of {', '.join(STRATEGIES)}, or bounds"
        )
    return partition


def _masks(graph: DGLGraph, masks: Mapping[str, str] | None) -> dict[str, str]:
    if masks is not None:
        if not isinstance(masks, Mapping):
            raise InvalidTraining(f"masks={masks!r}; give masks={{'train': 'train_mask'}}")
        unknown = sorted(str(name) for name in masks if name not in MASKS)
        if unknown:
            raise InvalidTraining(
                f"there is no mask {', '.join(map(repr, unknown))}; masks= names boolean features "
                f"for {', '.join(MASKS)}, as masks={{'train': 'train_mask'}}"
            )
        return dict(masks)
    return {name: field for name, field in MASKS.items() if field in graph.ndata}


def _check_masks(graph: DGLGraph, masks: Mapping[str, str]) -> None:
    for name in masks.values():
        mask = graph.ndata[name]
        if mask.dim() != 1 or not bool(((mask == 0) | (mask == 1)).all()):
            raise InvalidTraining(
                f"'{name}' is no mask: shape {list(mask.shape)}, {mask.dtype}; give a boolean for "
                "each vertex"
            )


def _order(graph: DGLGraph, order: str | Tensor | None, workers: int | None) -> Tensor | None:
    """A vertex for each place."""
    if order is None:
        return None
    if isinstance(order, Tensor):
        if not torch.equal(order.sort().values, torch.arange(graph.num_nodes())):
            raise InvalidTraining(
                f"order has to name each of {graph.num_nodes()} vertices once. Got shape "
                f"{list(order.shape)}."
            )
        return order
    if order != "metis":
        raise InvalidTraining(f"there is no order {order!r}: it is 'metis', a tensor or None")
    size = workers if workers is not None else world().size
    return torch.argsort(metis_partition_assignment(graph, size), stable=True)
