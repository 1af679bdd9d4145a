"""The ASGI servers that the tests of sonde.asgi run, installed from PyPI into an environment kept in the build directory."""
from pathlib import Path

import pypi
import pytest
from python_package import PYTHONS

HERE = Path(__file__).resolve().parent
NEEDED = ["fastapi==0.165.0", "starlette==1.10.0", "uvicorn==0.54.0", "httptools==0.9.0", "opentelemetry-proto==1.45.2"]


@pytest.fixture(scope="module")
def environment():
    """The directory with the environment's commands; skips the test when PyPI is not reachable."""
    return pypi.environment("asgi", NEEDED, PYTHONS, "(3, 11) <= sys.version_info")
