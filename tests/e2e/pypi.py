"""Packages from PyPI (packages.py), for tests: where they cannot be had, these skip."""
import packages
from harness.machine import skip


def environment(name, needed, interpreters, fit):
    try:
        return packages.environment(name, needed, interpreters, fit)
    except packages.Missing as missing:
        skip(str(missing))
