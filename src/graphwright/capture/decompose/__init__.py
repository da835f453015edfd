"""Composite kernels taken apart, so that splitting the batch stays exact."""
