"""Pictures of frontiers, profiles, partitions and timelines."""
