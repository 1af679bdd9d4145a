"""What `sonde doctor` says of the I/O programs on this kernel."""
import pytest

from harness.recording import attached_probes


def limitation(sonde):
    """What the programs cannot see, in words."""
    return attached_probes(sonde)["I/O of file systems"]["limitation"]


@pytest.fixture
def unseen(sonde, root):
    """What the programs cannot see, in words."""
    return limitation(sonde)
