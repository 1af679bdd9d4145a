"""A real model server that streams tokens over HTTP: llama.cpp's, from PyPI, with a small model that is generated here. Nobody here wrote it."""
import http.client
import json
import subprocess
import sys
import time

import pytest
from harness.machine import free_port
from harness.paths import TOP
from harness.processes import wait_for
from packages import environment
from real_servers import listens, why

MODEL = TOP / "tests/workloads/python/tiny_model.py"
NO_BUDGET = ("--set", "budget.one_cpu=1000%")
REQUESTS, TOKENS = 10, 60
NOT_WORDS = dict.fromkeys(map(str, range(259)), -100)  # bytes and special tokens: each token is a piece of text


@pytest.fixture
def llama(monkeypatch):
    """The interpreter of an environment with llama.cpp's server."""
    monkeypatch.setenv("CMAKE_ARGS", "-DGGML_NATIVE=OFF -DLLAVA_BUILD=OFF")
    needed = ["llama-cpp-python[server]==0.3.16", "gguf==0.19.0", "numpy"]
    return environment("llama-venv", needed, [sys.executable, "/usr/bin/python3"], "True", build_s=1200) / "python"


@pytest.fixture
def port(llama, run, tmp_path):
    model, port = tmp_path / "tiny.gguf", free_port()
    subprocess.run([llama, MODEL, model], check=True, capture_output=True, timeout=120)
    server = run(llama, "-m", "llama_cpp.server", "--model", model, "--model_alias", "tiny", "--port", port, "--n_threads", 1, "--n_ctx", 2048, name="llama")
    wait_for(lambda: listens(port) or not server.alive, 60, "the server")
    assert server.alive, server.error
    return port


def stream(port, number):
    """(seconds until the first token, seconds until the end)"""
    body = {"model": "tiny", "prompt": f"w{number} " * 60, "max_tokens": TOKENS, "temperature": 1.5, "stream": True, "logit_bias": NOT_WORDS}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    begun, first = time.monotonic(), None
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    for line in connection.getresponse():
        if line.startswith(b"data:") and first is None:
            first = time.monotonic() - begun
    connection.close()
    return first, time.monotonic() - begun


@pytest.mark.peer
@pytest.mark.statistical
def test_streams_of_llama_cpp(sonde, agent, port):
    """The requests are computed in a thread of a pool, one token a job, and sent by another task than the one that awaits the jobs."""
    stream(port, 0)
    watching = agent(*NO_BUDGET)
    seen = [stream(port, number) for number in range(REQUESTS)]
    wait_for(lambda: watching.metric("gen_ai_server_request_duration_seconds_count", gen_ai_request_model="tiny") >= REQUESTS, 60, "the streams to end")
    found = sorted((r for r in why(sonde, watching) if r["port"] == port and r["route"] == "/v1/completions"), key=lambda r: r["start_time_unix_nano"])
    assert [(r["model"], r["stream"]["unit"], r["stream"]["count"]) for r in found] == [("tiny", "token", TOKENS)] * REQUESTS, found
    late = [(r["stream"]["first_ns"], first) for r, (first, _) in zip(found, seen) if abs(r["stream"]["first_ns"] / 1e9 - first) > max(0.005, 0.05 * first)]
    assert not late, late
    computed = [sum(part["ns"] for part in r["parts"] if part["kind"] in ("cpu", "run_queue", "steal")) / r["duration_ns"] for r in found]
    assert sorted(computed)[1] > 0.9 and sum("ggml" in r["cause"] for r in found) >= REQUESTS * 0.6, [(r["cause"], r["parts"]) for r in found]
