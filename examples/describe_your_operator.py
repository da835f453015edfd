"""Describe your own operator, print the derived splits, and check them against the kernel."""

import torch
from torch import Tensor

import graphwright as gw
from graphwright.describe.language.syntax import Sum


@torch.library.custom_op("example::moving_sum", mutates_args=())
def moving_sum(x: Tensor, width: int) -> Tensor:
    """The sums of `width` adjacent elements of each row."""
    return x.unfold(1, width, 1).sum(-1)


@gw.describe("example.moving_sum")
def describe_moving_sum(x, *, width):
    return lambda row, i: Sum(lambda d: x[row, i + d], over=width)


def main() -> None:
    x = torch.rand(6, 12, dtype=torch.float64)
    for split in gw.check_operator("example.moving_sum", {"width": 3}, [x]):
        rows, columns = zip(*(part.inputs[0] for part in split.parts(2)), strict=True)
        print(split)
        print("    rows read:", " and ".join(f"{s.start}:{s.stop}" for s in rows), end=", ")
        print("columns read:", " and ".join(f"{s.start}:{s.stop}" for s in columns))
    print("the description is true; parts along `i` overlap by a halo of width - 1")


if __name__ == "__main__":
    main()
