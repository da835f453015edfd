"""Save and load training state under any plan."""
