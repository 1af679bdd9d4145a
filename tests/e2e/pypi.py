"""Packages from PyPI (packages.py) for tests; skips the test when they are not available."""
import packages
from harness.machine import skip


def environment(name, needed, interpreters, fit):
    try:
        return packages.environment(name, needed, interpreters, fit)
    except packages.Missing as missing:
        skip(str(missing))
