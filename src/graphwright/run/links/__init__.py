"""What ranks send to each other: collectives, messages, and reads of each other's memory."""

from graphwright.run.links.process_memory import name_machine
from graphwright.run.links.rows import RowLinks
