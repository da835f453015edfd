"""Less memory than a model needs: one step in it, or several models that share a device."""

from graphwright.cli.memory import serve, swap
