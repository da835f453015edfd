"""Searches over the estimate or the simulator: frontier, elimination, annealing, recursion, greedy; and exact references."""
