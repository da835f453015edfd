"""Frontier tracking (TensorOpt section 3): all assignments that no other beats in both time and memory."""
