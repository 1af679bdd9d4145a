"""Loads the modules of the test harness (tests/harness) that define fixtures and options.

Every program that a test starts has a timeout and ends with the test. A test that cannot run on this machine skips with the reason.
"""
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
os.environ.pop("DEBUGINFOD_URLS", None)  # no test contacts a server outside this machine

os.environ.pop("SUDO_UID", None)  # commands of `sonde record` would run as this user, who cannot use root's temporary files

os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # for the programs of the tests: their folders are compared and counted

pytest_plugins = [f"harness.{part}" for part in ("results", "machine", "processes", "recording", "agents", "workloads")]
