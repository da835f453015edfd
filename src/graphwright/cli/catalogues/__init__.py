"""What there is: models, substitutions, this machine and how fast it is."""

from graphwright.cli.catalogues import lists, machines
