"""Paths of the source tree and of the build."""
import os
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("SONDE_BUILD", TOP / "build"))
WORKLOADS = TOP / "build/workloads"  # also for builds with sanitizers: workloads are built without the project's flags, and Go's take long to build
