"""What ranks send to each other: collectives, messages, and reads of each other's memory."""
