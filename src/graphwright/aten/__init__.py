"""The border between graph names and PyTorch: overloads and their schemas, kernels, batches, optimizers, autocast, replay."""
