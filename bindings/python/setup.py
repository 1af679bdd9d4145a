"""Builds the wheel of the package `sonde`: libsonde's sources compiled into one extension for CPython 3.9 and
later, and libsonde-otlp.so.1. Without a compiler, or on another Python implementation, the package is installed
without them and is inactive; without libcurl, only libsonde-otlp.so.1 is missing."""
import os
import subprocess
from glob import glob

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

os.chdir(os.path.dirname(os.path.abspath(__file__)))
try:
    from wheel.bdist_wheel import bdist_wheel

    class Wheel(bdist_wheel):
        """One wheel for all versions of Python from 3.9 on."""

        def get_tag(self):
            return ("cp39", "abi3", super().get_tag()[2])
    commands = {"bdist_wheel": Wheel}
except ImportError:
    commands = {}

VERSION = "0.1.0"


class Build(build_ext):
    """Places libsonde-otlp.so.1 next to the extension, which loads it from there to send traces to a receiver."""

    def get_ext_filename(self, name):
        return "libsonde-otlp.so.1" if name.endswith("otlp") else super().get_ext_filename(name)

    def build_extension(self, extension):
        """Prefers TLS descriptors for the thread context (lib/trace/thread_context.c), if the compiler supports
        them."""
        if self.takes("-mtls-dialect=gnu2"):
            extension.extra_compile_args.append("-mtls-dialect=gnu2")
        super().build_extension(extension)

    def takes(self, flag):
        try:
            return subprocess.run([*self.compiler.compiler_so, flag, "-E", "-x", "c", os.devnull], capture_output=True).returncode == 0
        except OSError:  # no compiler: the build reports that itself
            return False


def files(*patterns):
    return [file for pattern in patterns for file in sorted(glob(pattern))]


def extension(name, *sources, libraries=()):
    return Extension(name, files(*sources), include_dirs=["../../include"], depends=files("*.h", "../../include/sonde/*.h", "../../lib/**/*.h"),
                     libraries=list(libraries), define_macros=[("_GNU_SOURCE", "1"), ("SONDE_VERSION", f'"{VERSION}"')],
                     extra_compile_args=["-std=gnu17", "-fvisibility=hidden"], py_limited_api=True, optional=True)


setup(
    name="sonde",
    version=VERSION,
    description="USDT probes and inference request traces for servers in Python",
    license="Apache-2.0",
    python_requires=">=3.9",
    packages=["sonde"],
    extras_require={"mlserver": ["mlserver>=1.7,<2", "uvloop<0.22"]},  # MLServer 1.7 does not start on a newer uvloop
    ext_modules=[extension("sonde._native", "_*.c", "../../lib/probe/*.c", "../../lib/trace/*.c", *(f"../../lib/otlp/{name}.c" for name in ("partial_success", "retry", "sender", "settings", "wire")), libraries=["dl", "pthread"]),
                 extension("sonde.otlp", *(f"../../lib/otlp/{name}.c" for name in ("curl", "grpc", "gzip", "partial_success", "wire")), libraries=["curl", "z"])],
    cmdclass={**commands, "build_ext": Build},
)
