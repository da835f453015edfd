"""One spelling for each operator: what the recorder writes for an ATen call."""
