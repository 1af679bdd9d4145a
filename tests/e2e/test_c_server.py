"""examples/c-server used as its README describes: its responses, the traces it writes, its probes; also built by its own Makefile."""
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.machine import need_command
from harness.paths import BUILD, TOP
from harness.processes import wait_for

FLOWERS = "5.1 3.5 1.4 0.2\n6.4 3.2 4.5 1.5\n6.3 3.3 6.0 2.5\n"  # one sample of each species of Fisher's data set
SPECIES = "setosa\nversicolor\nvirginica\n"


class Server:
    def __init__(self, running):
        self.running = running
        self.port = int(wait_for(lambda: re.search(r"listening on (\d+)", running.out), what="the port")[1])

    def call(self, method, path, body=None, headers={}):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def classify(self, body, **headers):
        return self.call("POST", "/classify", body, headers)


@pytest.fixture
def serve(run):
    def start(*settings, path=BUILD / "examples/c-server"):
        return Server(run(path, *(part for setting in settings for part in ("--trace-config", setting)), "0", name="c-server"))
    return start


def test_responses_and_refusals(serve):
    server = serve()
    assert server.classify(FLOWERS) == (200, SPECIES)
    assert server.classify(FLOWERS * 2000) == (200, SPECIES * 2000)  # larger than one read
    for refused in ("", "x", "1 2 3", FLOWERS + "1", FLOWERS + "\0 1 2 3 4", "nan 1 2 3", "1 2 3 1e999"):
        assert server.classify(refused)[0] == 400, refused
    assert server.call("GET", "/")[0] == 404
    with pytest.raises((http.client.HTTPException, OSError)):
        server.classify("1" * (2 << 20))
    assert server.classify(FLOWERS) == (200, SPECIES)
    assert server.running.stop(signal.SIGINT) == 0, server.running.error


@pytest.mark.sanitized
def test_traces_of_requests_tensors_and_refusals(serve, sonde, tmp_path):
    """One object per request, including tensors and refusals; settings are read and changed at run time; `sonde trace` reads the file."""
    server = serve("rate=1", "level=TENSORS", "level=TIMESTAMPS", f"triton,file={tmp_path}/trace.json")
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: server.classify(FLOWERS, **{"X-Request-Id": f"r{i}"}), range(200)))
    assert answers == [(200, SPECIES)] * 200
    assert server.classify("1 2")[0] == 400
    assert json.loads(server.call("GET", "/v2/trace/setting")[1])["trace_level"] == ["TIMESTAMPS", "TENSORS"]
    assert server.call("POST", "/v2/models/iris/trace/setting", '{"trace_level":["OFF"]}')[0] == 200
    assert server.call("POST", "/v2/models/rose/trace/setting", "{}")[0] == 400
    assert server.classify(FLOWERS)[0] == 200  # not traced from here on
    assert server.running.stop() == 0, server.running.error

    objects = json.loads((tmp_path / "trace.json").read_text())
    heads = [o for o in objects if "model_name" in o]
    assert sorted(h["request_id"] for h in heads if "request_id" in h) == sorted(f"r{i}" for i in range(200))
    assert [h.get("error") for h in heads if h.get("status") == "error"] == ["expected four numbers a flower"] and len(heads) == 201
    tensors = {(o["activity"], o["tensor"]["data"]) for o in objects if "tensor" in o}
    assert tensors == {("TENSOR_BACKEND_INPUT", "5.1,3.5,1.4,0.2,6.4,3.2,4.5,1.5,6.3,3.3,6,2.5"), ("TENSOR_BACKEND_OUTPUT", "0,1,2")}
    done = subprocess.run([sonde, "trace", "summary", "--json", tmp_path / "trace.json"], capture_output=True, text=True, timeout=60)
    model, = json.loads(done.stdout)[0]["models"]
    assert (model["model_name"], model["model_version"], model["trace_count"]) == ("iris", 1, 200), done.stdout


def test_probes_are_listed_and_fire(serve, run, sonde, root):
    server = serve()
    watching = run(sonde, "probes", "watch", "c_server:predict_end", "-p", server.running.pid, "--by", "flowers")
    wait_for(lambda: "attached to" in watching.error or not watching.alive, 60, "the watch to be attached")
    for count in (1, 3, 3, 3):
        assert server.classify("1 2 3 4\n" * count)[0] == 200
    assert watching.stop(signal.SIGINT) == 0, watching.error
    assert dict(reversed(line.split()) for line in re.findall(r"^\s*\d+ +\d+\s*$", watching.out, re.M)) == {"3": "3", "1": "1"}, watching.out


def test_unknown_option_is_refused(run, tmp_path):
    server = run(BUILD / "examples/c-server", "--trace-config", "rate=often", "0", name="c-server")
    assert server.wait() == 1 and '--trace-config rate' in server.error


def test_makefile_builds_a_copy_outside_the_tree(serve, tmp_path):
    """Copied to another directory, as a user would."""
    need_command("make")
    for name in ("server.c", "Makefile"):
        shutil.copy(TOP / "examples/c-server" / name, tmp_path)
    done = subprocess.run(["make", "-C", tmp_path, "CFLAGS=-O2 -Wall -Wextra -Werror"], capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, PKG_CONFIG_PATH=f"{BUILD}/meson-uninstalled"))
    assert done.returncode == 0, done.stderr
    server = serve(path=tmp_path / "c-server")
    assert server.classify(FLOWERS) == (200, SPECIES)
    assert server.running.stop() == 0
