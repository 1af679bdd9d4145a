"""What `sonde doctor` says of the I/O programs on this kernel."""
import json
import subprocess

import pytest


def limitation(sonde):
    said = json.loads(subprocess.run([sonde, "doctor", "--json"], capture_output=True, text=True, check=True).stdout)
    return next(probe["limitation"] for probe in said["probes"] if probe["probe"] == "I/O of file systems")


@pytest.fixture
def unseen(sonde, root):
    """What the programs cannot see, in words."""
    return limitation(sonde)
