r"""Ranks agree on what came of their work, and on what they were given.

    rank 0   work() -> a      \                  / [a, b]
    rank 1   work() -> b      /  all_gather ->   \ [a, b]     or, on both, the first rank's error

Without `gather_results`, a rank that fails leaves and the others wait for it until a time limit.
Results travel as JSON, never as pickles: nothing that another process sends is executed.

The values that training starts from, learning rates, and batches that are given whole must be the
same on all ranks. Nothing of them travels in a step, so ranks that differ would train different
models and report one loss. `check_ranks_agree` compares digests before calls 1, 2, 4, 8, ...: what
goes wrong in every step is noticed soon, and comparing costs nothing in the long run.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, TypeVar, cast

import torch

from graphwright.errors import GraphwrightError, RanksDiffer, error_type
from graphwright.run.processes.lost import naming_lost_ranks
from graphwright.run.processes.notices import notice_of_waiting

T = TypeVar("T")

DIGESTED_BYTES = 1 << 15
"""Bytes at each end of a tensor that enter its digest: values drawn or read differently show."""

MAX_RESULT_BYTES = 1 << 28
"""The largest result that is accepted from a rank."""

VALUES, RATES = "values", "rates"


def rank_and_size() -> tuple[int, int]:
    """The number of this process and how many there are; (0, 1) without a process group."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


def gather_results(work: Callable[[], T]) -> list[T]:
    """Run `work` on every rank and return all results by rank; an error of one is raised on all.

    Results are what JSON can hold; among several ranks, tuples become lists.
    """
    rank, size = rank_and_size()
    own: T | None = None
    failure: GraphwrightError | OSError | None = None
    try:
        own = work()
    except (GraphwrightError, OSError) as error:
        failure = error
    answers: list[dict[str, Any]] = []
    if size > 1:
        answer = {"result": own} if failure is None else {"error": _error_to_json(failure)}
        with notice_of_waiting(rank), naming_lost_ranks(rank, "while ranks agreed"):
            answers = [json.loads(data) for data in _all_gather(json.dumps(answer).encode())]
    if failure is not None:  # its own error first: that one still has its traceback
        raise failure
    for other in answers:
        if "error" in other:
            raise _error_from_json(other["error"])
    return [other["result"] for other in answers] or [cast(T, own)]


def _all_gather(own: bytes) -> list[bytes]:
    """The bytes of all ranks."""
    import torch.distributed as dist

    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    everywhere = range(dist.get_world_size())
    lengths = [torch.empty(1, dtype=torch.int64, device=device) for _ in everywhere]
    dist.all_gather(lengths, torch.tensor([len(own)], device=device))
    counts = [int(length) for length in lengths]
    if not all(0 <= count <= MAX_RESULT_BYTES for count in counts):
        raise RanksDiffer(f"ranks exchange results of {counts} bytes; {MAX_RESULT_BYTES} is most")
    padded = torch.zeros(max(counts), dtype=torch.uint8)
    padded[: len(own)] = torch.frombuffer(bytearray(own), dtype=torch.uint8)
    parts = [torch.empty(max(counts), dtype=torch.uint8, device=device) for _ in everywhere]
    dist.all_gather(parts, padded.to(device))
    pairs = zip(parts, counts, strict=True)
    return [part[:count].cpu().numpy().tobytes() for part, count in pairs]


def _error_to_json(error: GraphwrightError | OSError) -> dict[str, Any]:
    if isinstance(error, OSError):
        return {"os": [error.errno, error.strerror or str(error), str(error.filename or "")]}
    fields = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    return {"type": type(error).__name__, "message": str(error), "fields": fields}


def _error_from_json(data: Mapping[str, Any]) -> GraphwrightError | OSError:
    """The error that another rank met; one of ours, whatever is named."""
    if "os" in data:
        number, text, file = data["os"]
        return OSError(number, text, *([file] if file else []))
    fields = {n: tuple(v) if isinstance(v, list) else v for n, v in data["fields"].items()}
    kind = error_type(data["type"])
    error = kind(data["message"])
    if kind.__name__ == data["type"]:
        vars(error).update(fields)
    return error


@contextmanager
def without_group_warning() -> Iterator[None]:
    """Silence PyTorch's warning that there is no process group."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        yield


def is_check_due(num_calls: int) -> bool:
    """Whether ranks compare after so many calls: after 0, 1, 3, 7, ..."""
    return num_calls & (num_calls + 1) == 0


def digest_tensors(tensors: Iterable[tuple[str, torch.Tensor]]) -> str:
    """A digest of tensors by name: of types, and of both ends of values that are not on meta."""
    digest = blake2b(digest_size=16)
    for name, tensor in tensors:
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} {tensor.is_meta}".encode())
        if tensor.is_meta or not tensor.numel():
            continue
        count = max(1, DIGESTED_BYTES // tensor.element_size())
        flat = tensor.detach().reshape(-1)
        for end in (flat[:count], flat[-count:]):
            digest.update(end.contiguous().cpu().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def check_ranks_agree(given: Mapping[str, object], check: Callable[[], None]) -> None:
    """Raise unless all ranks were given the same, by input name, VALUES or RATES; skips None.

    What `check` raises on one rank is raised on all.
    """

    def work() -> dict[str, Any]:
        check()
        return dict(given)

    everywhere = gather_results(work)
    for key, first in everywhere[0].items():
        for rank, other in enumerate(everywhere):
            if None not in (first, other.get(key)) and other[key] != first:
                raise RanksDiffer(_describe_difference(key, rank, first, other[key]))


def _describe_difference(key: str, rank: int, first: Any, other: Any) -> str:
    if key == VALUES:
        return (
            f"rank {rank} has a model with other values than rank 0. Call torch.manual_seed with "
            "the same number on every rank before making the model, read it from a file, or "
            "step.load a checkpoint before the first step"
        )
    if key == RATES:
        return (
            f"rank {rank} has the learning rates {dict(other)}, and rank 0 has {dict(first)}; step "
            "the scheduler on every rank"
        )
    return (
        f"rank {rank} was given another {key} than rank 0. Give all ranks the same whole batch, "
        "shuffled from the same seed, or each its own part (graphwright.run.shard_loader)"
    )
