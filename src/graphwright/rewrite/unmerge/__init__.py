"""Keep apart the dims that PyTorch merges to call its kernels, so that each can be split."""

from graphwright.rewrite.unmerge.unmerge import Unmerge
