"""OTLP profile packets in tests: fixtures that check and decode them, and frames as text."""
import json
import subprocess
import sys
from pathlib import Path

import profcheck as rules
import profiles_messages
import pytest
from pypi import environment

HERE = Path(__file__).resolve().parent
MESSAGES = "opentelemetry-proto==1.45.2"  # its profile messages are v1development


@pytest.fixture(scope="session")
def profcheck():
    """profcheck(path, ...) -> [the profiles of each packet]; raises AssertionError for a packet that breaks a rule of profcheck.py. With broken=True
    the packet must break one; returns the reason."""
    def read(*paths, broken=False):
        try:
            packets = [rules.Packet(profiles_messages.request(rules.body_of(path))).read() for path in paths]
        except SystemExit as error:
            assert broken, str(error)
            return str(error)
        assert not broken, "no rule is broken"
        return packets
    return read


@pytest.fixture(scope="session")
def official_profcheck():
    """Like profcheck, with the messages of opentelemetry-proto (PyPI); for tests with the marker `peer`."""
    python = environment("python-otlp-profiles", [MESSAGES], [sys.executable, "/usr/bin/python3"], "sys.version_info >= (3, 10)") / "python"

    def read(*paths):
        done = subprocess.run([python, HERE / "profcheck.py", *paths], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]
    return read


def text_of(frame):
    """A frame as printed for users (frame_text of src/model/frame.h)."""
    return frame["name"] or f"{frame['mapping'].rpartition('/')[2] or '[unknown]'}+{frame['address']:#x}"
