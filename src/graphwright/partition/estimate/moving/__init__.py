"""What bringing a tensor from one sharding to another takes, for many pairs at once."""

from graphwright.partition.estimate.moving.tables import Prices
