"""Describe an operator of your own, see what follows from it, and have it checked against its kernel."""

import torch
from torch import Tensor

import graphwright as gw
from graphwright.describe.language import Sum


@torch.library.custom_op("example::blur", mutates_args=())
def blur(x: Tensor, radius: int) -> Tensor:
    """Sum each row's neighbourhood; zeros lie outside."""
    padded = torch.nn.functional.pad(x, (radius, radius))
    return padded.unfold(1, 2 * radius + 1, 1).sum(-1)


@gw.describe("example.blur")
def describe_blur(x, *, radius):
    return lambda row, i: Sum(lambda d: x.pad(0)[row, i + d - radius], over=2 * radius + 1)


def main() -> None:
    x = torch.rand(6, 12, dtype=torch.float64)
    for split in gw.check_operator("example.blur", {"radius": 2}, [x]):
        print(split)
    print(
        "the description is true; `i` has no split, because the radius both widens the window and pads the row"
    )


if __name__ == "__main__":
    main()
