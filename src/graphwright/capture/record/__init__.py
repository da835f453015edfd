"""Record one step on fake tensors: the tape of operators, in one spelling each, and where each came from."""
