"""Random words by place: any box of a tensor is drawn alike, whoever draws it.

A counter-based generator (Philox 4x32-10: Salmon et al., "Parallel random numbers: as easy as 1,
2, 3", 2011) is a function from a key and a counter to four words of 32 bits, without a state:

    key       hash of (seed, number of the operator, name, stream)
    counter   (block, row, row, hash):  where the element is in the WHOLE output

                  lane dim ->
          block 0         block 1         block 2
    row 0 | w0 w1 w2 w3 | w0 w1 w2 w3 | w0 w1 w2 w3 |
    row 1 | w0 w1 w2[w3 | w0 w1 w2 w3 | w0]w1 w2 w3 |    [a box]: blocks 0 to 2, less the edges
    row 2 | w0 w1 w2[w3 | w0 w1 w2 w3 | w0]w1 w2 w3 |

Four elements in a row share a counter. The dim along which they lie is a function of the whole
shape alone (`lane_dim`); a row is an index into all other dims. An element that needs more bits
takes a word from each of several streams.

Words come from integer operators of PyTorch, or from one kernel that computes the same
(`philox_gpu`), so they are the same on every device. Work goes in chunks, which bounds the
temporaries and keeps them in a CPU's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from math import prod

import torch
from torch import Tensor

from graphwright.errors import InvalidCall

WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10

LONG = 64
"""A dim of this size or more is long enough to lay blocks of four along it."""

CHUNK = {"cpu": 1 << 18}
CHUNK_ELSEWHERE = 1 << 22
"""How many elements are drawn at a time."""

Key = tuple[int, int, int] | Tensor
"""Philox's two words and the last word of every counter; a tensor if not known yet (`Keys`)."""

FromWords = Callable[..., Tensor]
"""Turns the words of an element, one from each stream, into its value."""


class Keys:
    """Keys in a table, so that a recorded draw can be replayed with the keys of another seed.

    With a first `seed`, its keys are written as they are asked for.
    """

    def __init__(self, capacity: int, device: torch.device, seed: int | None = None) -> None:
        self.table = torch.zeros((capacity, 4), dtype=torch.int64, device=device)
        self.seed, self.is_short = seed, False
        self.asked: list[tuple[int, str, int]] = []

    def ask(self, operator: int, name: str, stream: int) -> Key:
        """Where the key of a stream is; with a seed, and no room, the key."""
        row = len(self.asked)
        if row == len(self.table):
            if self.seed is None:
                raise RuntimeError(f"more than {row} keys are asked for")
            self.is_short = True
            return _make_key(self.seed, operator, name, stream)
        self.asked.append((operator, name, stream))
        if self.seed is not None:
            self._write(row, [_make_key(self.seed, operator, name, stream)])
        return self.table[row, :3]

    def write(self, seed: int) -> None:
        """Write the keys of a seed for all that was asked."""
        self._write(0, [_make_key(seed, *asked) for asked in self.asked])

    def _write(self, first: int, keys: Sequence[tuple[int, int, int]]) -> None:
        if keys:  # a copy from memory that is not pinned has read it when it returns
            given = torch.tensor(keys)
            self.table[first : first + len(keys), :3].copy_(given, non_blocking=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomBox:
    """Which numbers to draw: those in `box` of an operator's whole output, of size `shape`.

    `operator` is the operator's number in its graph, the same on every device; so is `seed`.
    """

    seed: int | Keys
    operator: int
    shape: tuple[int, ...]
    box: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        inside = len(self.shape) == len(self.box) and all(
            0 <= start <= stop <= size
            for (start, stop), size in zip(self.box, self.shape, strict=True)
        )
        if not inside:
            raise InvalidCall(
                f"operator {self.operator} draws the box {list(self.box)}, which is not inside its "
                f"output's shape {list(self.shape)}; give 0 <= start <= stop <= size for each dim"
            )

    @property
    def size(self) -> tuple[int, ...]:
        """The size of the box."""
        return tuple(stop - start for start, stop in self.box)

    @property
    def last_is_whole(self) -> bool:
        """Whether the box has all of the last dim."""
        return not self.box or self.box[-1] == (0, self.shape[-1])

    def with_last(self, size: int) -> RandomBox:
        """The same place, with all of a last dim of another size."""
        return replace(self, shape=(*self.shape[:-1], size), box=(*self.box[:-1], (0, size)))


def philox(
    counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[int | Tensor, int | Tensor]
) -> Tensor:
    """The four words for each counter, stacked; counters are int64 tensors that broadcast."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        # The low halves keep their carries: they only meet others before the next mask.
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0 = _mix(p1, c1, k0)
        c2 = _mix(p0, c3, k1)
        c1, c3 = p1, p0
        k0, k1 = (k0 + _WEYL[0]) & WORD, (k1 + _WEYL[1]) & WORD
    return torch.stack([c0, c1, c2, c3]).bitwise_and_(WORD)


def _mix(product: Tensor, other: Tensor, key: int | Tensor) -> Tensor:
    high = product >> 32
    mixed = high.bitwise_xor_(other) if high.shape == other.shape else high ^ other
    return mixed.bitwise_xor_(key).bitwise_and_(WORD)


def lane_dim(shape: tuple[int, ...]) -> int:
    """The dim along which four elements share a counter: the last long one, else the longest."""
    long = [dim for dim, size in enumerate(shape) if size >= LONG]
    return long[-1] if long else max(range(len(shape)), key=lambda dim: (shape[dim], dim))


def fill(
    place: RandomBox, name: str, num_streams: int, value: FromWords, dtype: torch.dtype,
    device: torch.device,
) -> Tensor:  # fmt: skip
    """A tensor with ``value(word, word, ...)`` of each element of the box, drawn as `name`."""
    if not place.shape:
        one = replace(place, shape=(1,), box=((0, 1),))
        return fill(one, name, num_streams, value, dtype, device).reshape(())
    lane = lane_dim(place.shape)
    rows = _rows(place, lane, device)
    start, stop = place.box[lane]
    others = [n for dim, n in enumerate(place.size) if dim != lane]
    values = torch.empty((rows.numel(), stop - start), dtype=dtype, device=device)
    if values.numel():
        keys = [_key(place, name, stream) for stream in range(num_streams)]
        limit = CHUNK.get(device.type, CHUNK_ELSEWHERE)
        wide = max(4, min(-(-(stop - start) // 4) * 4, limit) // 4 * 4)
        high = max(1, limit // wide)
        first = start // 4 * 4
        for left in range(first, stop, wide):
            right = min(left + wide, stop)
            blocks = range(left // 4, -(-right // 4))
            taken = slice(max(start, left) - start, right - start)
            skip = max(start - left, 0)
            for top in range(0, rows.numel(), high):
                part = rows[top : top + high]
                words = [_words(part, blocks, key) for key in keys]
                # (lane, row, block) to (row, block, lane), without what sticks out of the box
                chunk = value(*words).movedim(0, -1).flatten(1)
                values[top : top + high, taken] = chunk[:, skip : skip + taken.stop - taken.start]
    return values.reshape(*others, stop - start).movedim(-1, lane).contiguous()


def _rows(place: RandomBox, lane: int, device: torch.device) -> Tensor:
    """The numbers of the box's rows: flat indices into all dims of the whole but the lane dim."""
    rows = torch.zeros((), dtype=torch.int64, device=device)
    for dim, ((start, stop), size) in enumerate(zip(place.box, place.shape, strict=True)):
        if dim != lane:
            rows = rows[..., None] * size + torch.arange(start, stop, device=device)
    return rows.reshape(prod(n for dim, n in enumerate(place.size) if dim != lane))


def _words(rows: Tensor, blocks: range, key: Key) -> Tensor:
    """[lane, row, block] -> word."""
    kernel = find_kernel(rows.device) if rows.device.type == "cuda" else _by_operators
    return kernel(rows, blocks, key)


def _by_operators(rows: Tensor, blocks: range, key: Key) -> Tensor:
    block = torch.arange(blocks.start, blocks.stop, device=rows.device)
    tag = key[2]
    if not isinstance(tag, Tensor):
        tag = torch.full((), tag, dtype=torch.int64, device=rows.device)
    row = rows[:, None]
    return philox((block[None, :], row & WORD, row >> 32, tag.view(1, 1)), (key[0], key[1]))


@cache
def find_kernel(device: torch.device) -> Callable[[Tensor, range, Key], Tensor]:
    """What draws words on a GPU: Triton's kernel if it can be built and is right, or operators."""
    rows = torch.tensor([0, 5, WORD + 2], device=device)
    key = (WORD, 1, WORD - 5)
    try:
        from graphwright.run.random.philox_gpu import draw_words

        wanted = _by_operators(rows, range(3, 9), key)
        ways = (key, torch.tensor(key, device=device))
        same = all(torch.equal(draw_words(rows, range(3, 9), way), wanted) for way in ways)
    except Exception:  # a missing compiler, an unknown GPU: each has its own
        same = False
    return draw_words if same else _by_operators


def _key(place: RandomBox, name: str, stream: int) -> Key:
    if isinstance(place.seed, Keys):
        return place.seed.ask(place.operator, name, stream)
    return _make_key(place.seed, place.operator, name, stream)


def _make_key(seed: int, operator: int, name: str, stream: int) -> tuple[int, int, int]:
    text = repr((int(seed), int(operator), name, stream))
    digest = blake2b(text.encode(), digest_size=12).digest()
    k0, k1, tag = (int.from_bytes(digest[at : at + 4], "little") for at in (0, 4, 8))
    return k0, k1, tag
