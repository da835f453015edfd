"""Check descriptions, splits and training against PyTorch on one device."""
