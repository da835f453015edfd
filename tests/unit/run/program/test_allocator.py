"""What a process does with memory that it frees."""

import subprocess
import sys

import pytest

FAULTS = """
import resource, torch
from graphwright.run.program.allocator import keep_freed_memory

def faults(count):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(count):
        torch.ones(10_000_000)  # 40 MB, freed at once
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(20), keep_freed_memory(), faults(3) and faults(20))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="an option of glibc")
def test_freed_memory_is_taken_again_without_faults():
    said = subprocess.check_output([sys.executable, "-c", FAULTS], text=True).split()
    assert said[1] == "True"
    assert int(said[2]) < int(said[0]) / 3
