"""Where and how programs of arrays run: planning, tasks, workers, files."""
