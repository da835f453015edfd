"""What a choice costs: the additive problem, its tables of computing and of moving tensors."""
