"""Attention where PyTorch has no operator of the CPU's name, and causal attention."""

from graphwright.aten.attention.operators import attention, attention_backward
