"""Which rank a time limit blames, from the stacks that workers leave."""

import pytest

from graphwright.run.links import messages, neighbours
from graphwright.run.processes.launch import _in_collective


@pytest.mark.parametrize("module", [messages, neighbours])
def test_a_rank_that_waits_in_our_links_waits_for_others(module):
    stack = f'  File "{module.__file__}", line 7 in wait\n  File "train.py", line 3 in main'
    assert _in_collective(stack)
    assert not _in_collective('  File "train.py", line 3 in main')
