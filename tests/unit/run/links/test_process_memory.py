"""Reading memory of a process, here of this one."""

import errno
import os
import shutil
import subprocess
import sys

import pytest
import torch

from graphwright.run.links.process_memory import name_machine, read_memory

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="memory of other processes is read on Linux only"
)


def test_what_lies_at_an_address_is_read():
    there, here = torch.randn(70_000), torch.empty(70_000)
    read_memory(os.getpid(), there.data_ptr(), here)
    assert torch.equal(there, here)


def test_an_address_without_memory_is_an_error():
    with pytest.raises(OSError, match="cannot read memory of process") as caught:
        read_memory(os.getpid(), 8, torch.empty(4))
    assert caught.value.errno == errno.EFAULT


def test_a_process_that_is_not_there():
    with pytest.raises(OSError, match="No such process"):
        read_memory(2**22 + 1, 4096, torch.empty(4))


def test_a_machine_has_one_name():
    assert name_machine() == name_machine() is not None


def test_another_network_is_another_machine():
    # The sockets by which processes meet belong to a network: rank 0 waited 20 s for a connection.
    alone = ["unshare", "--net", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True).returncode:  # fmt: skip
        pytest.skip("network namespaces are not allowed here")
    ask = "from graphwright.run.links.process_memory import name_machine; print(name_machine())"
    done = subprocess.run([*alone, sys.executable, "-c", ask], capture_output=True, text=True, check=True)  # fmt: skip
    here = name_machine()
    assert here is not None and done.stdout.strip().rpartition("/")[0] not in ("", here.rpartition("/")[0])  # fmt: skip
