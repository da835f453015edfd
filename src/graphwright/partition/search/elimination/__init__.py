"""The least of time + weight * memory, by eliminating variables (OptCNN section 5)."""
