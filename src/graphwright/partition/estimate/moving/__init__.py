"""What bringing a tensor from one sharding to another takes, for many pairs at once."""
