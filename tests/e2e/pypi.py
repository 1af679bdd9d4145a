"""Packages from PyPI and Go modules (packages.py) for tests; skips the test when they are not available."""
import packages
from harness.machine import skip


def or_skip(provide, *arguments):
    try:
        return provide(*arguments)
    except packages.Missing as missing:
        skip(str(missing))


def environment(name, needed, interpreters, fit):
    return or_skip(packages.environment, name, needed, interpreters, fit)


def go_program(name):
    return or_skip(packages.go_program, name)
