"""One rank's program as a module that PyTorch runs."""
