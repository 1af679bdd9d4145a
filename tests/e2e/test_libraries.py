"""Libraries that are loaded on demand: without them recording works, and features that need them name the package to install."""
import os
import re
import subprocess
from pathlib import Path

import pytest
from harness.machine import skip

FOLDERS = [Path(f"/usr/lib/{name}") for name in (f"{os.uname().machine}-linux-gnu", "", "../lib64")]


@pytest.fixture
def run_without(sonde, root, tmp_path):
    """run_without(libraries, arguments...) runs sonde in a mount namespace where the files of `libraries` are empty."""
    def run_without(names, *arguments, **environment):
        (tmp_path / "empty").touch()
        paths = [next((folder / name for folder in FOLDERS if (folder / name).exists()), None) for name in names]
        if None in paths:
            skip(f"there is no {names}")
        hide = "".join(f'mount --bind {tmp_path}/empty "$(readlink -f {path})" && ' for path in paths)
        done = subprocess.run(["unshare", "-m", "sh", "-c", hide + 'exec "$@"', "sh", sonde, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=120, env={**os.environ, **environment})
        if done.stderr.startswith(("unshare:", "mount:")):
            skip(done.stderr.strip())
        return done
    return run_without


CURL, MICROHTTPD = "libcurl.so.4", "libmicrohttpd.so.12"


def test_recording_needs_neither_library(run_without, tmp_path):
    done = run_without([CURL, MICROHTTPD], "record", "-d", "100ms", "-o", tmp_path / "a.pb.gz")
    assert done.returncode == 0 and (tmp_path / "a.pb.gz").exists(), done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("subcommand", ["up", "agent"])
def test_page_server_needs_libmicrohttpd(run_without, subcommand):
    done = run_without([MICROHTTPD], subcommand, "--listen", "127.0.0.1:0")
    assert done.returncode == 1 and "install the package libmicrohttpd12" in done.stderr, done.stderr


@pytest.mark.parametrize("arguments", [["why", "--agent", "127.0.0.1:1"], ["diff", "--agent", "127.0.0.1:1", "--window", "60s..30s", "--window", "30s..0s"]])
def test_agent_client_needs_libcurl(run_without, arguments):
    done = run_without([CURL], *arguments)
    assert done.returncode == 1 and "the package libcurl4" in done.stderr and CURL in done.stderr, done.stderr


def test_why_without_libcurl_observes_by_itself(run_without):
    done = run_without([CURL], "why", "--last", "1s")
    assert done.returncode == 0 and "no agent can be queried" in done.stderr and CURL in done.stderr, done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_profile_export_needs_libcurl(run_without, protocol):
    """Also when the receiver's address, which libcurl parses, comes from the environment."""
    for given in [["--set", "otlp.profiles_endpoint=http://127.0.0.1:1"]], {"OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT": "http://127.0.0.1:1"}:
        arguments, environment = ([], given) if isinstance(given, dict) else (*given, {})
        done = run_without([CURL], "agent", "--listen", "127.0.0.1:0", *arguments, OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL=protocol, **environment)
        assert done.returncode == 1 and re.search(rf"otlp.profiles_endpoint: http://127.0.0.1:1: .*{CURL}", done.stderr) and "cannot attach" not in done.stderr, done.stderr


def test_debuginfod_needs_libcurl(run_without, tmp_path):
    """The recording itself is complete."""
    done = run_without([CURL], "record", "--lines", "-d", "100ms", "-o", tmp_path / "a.pb.gz", DEBUGINFOD_URLS="http://127.0.0.1:1", DEBUGINFOD_CACHE_PATH=str(tmp_path / "cache"))
    assert done.returncode == 0 and (tmp_path / "a.pb.gz").exists(), done.stderr
    assert "debuginfod is not used" in done.stderr and "the package libcurl4" in done.stderr, done.stderr
