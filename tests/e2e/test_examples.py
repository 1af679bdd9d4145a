"""examples/inference-server used as its README describes: third-party clients work with it, its traces add up, its workers may die, and `make demo`
starts and cleans up. Its PyPI packages are kept in the build directory; the tests are skipped without them."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pypi
import pytest
from harness.machine import free_port, skip
from harness.paths import BUILD, TOP
from harness.processes import command_line, wait_for

HERE, EXAMPLE = Path(__file__).resolve().parent, TOP / "examples/inference-server"
pytestmark = [pytest.mark.timeout(600), pytest.mark.peer]  # the first test installs the packages
CLIENTS = ["tritonclient[http,grpc]==2.73.0", "openai==3.54.0"]
UNAVAILABLE = 69
IMAGE = [0, 0, 5, 13, 9, 1, 0, 0, 0, 0, 13, 15, 10, 15, 5, 0, 0, 3, 15, 2, 0, 11, 8, 0, 0, 4, 12, 0, 0, 8, 8, 0, 0, 5, 8, 0, 0, 9, 8, 0, 0, 4, 11, 0,
         1, 12, 7, 0, 0, 2, 14, 5, 10, 12, 0, 0, 0, 0, 6, 13, 10, 0, 0, 0]  # the pixels of a zero


@pytest.fixture(scope="module")
def prepared():
    """The directory with the server's environment and models."""
    folder = BUILD / "inference-server"
    try:
        done = subprocess.run([EXAMPLE / "prepare", folder], capture_output=True, text=True, timeout=500)
    except subprocess.TimeoutExpired:
        skip("the example server's packages were not there within 500 s from PyPI")
    if done.returncode == UNAVAILABLE:
        skip("the example server's packages cannot be had: " + done.stderr.strip()[-200:])
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def clients():
    """A Python with the clients, whose dependencies conflict with the server's."""
    return pypi.environment("inference-clients", CLIENTS, ["/usr/bin/python3"], "(3, 9) <= sys.version_info") / "python"


class Server:
    def __init__(self, running, ports):
        self.running, self.pid = running, running.pid
        self.port, self.grpc_port = ports

    def call(self, method, path, body=None, timeout_s=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request(method, path, body if body is None or isinstance(body, (str, bytes)) else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def infer(self, model, rows=1, name="image", request_id="", **more):
        return self.call("POST", f"/v2/models/{model}/infer", {"id": request_id, "inputs": [
            {"name": name, "datatype": "FP32", "shape": [rows, 64], "data": IMAGE * rows, **more}]})

    def ready(self):
        assert self.running.alive, self.running.error[-3000:]
        try:
            return self.call("GET", "/v2/health/ready")[0] == 200
        except OSError:
            return False

    def children(self):
        """The workers and the writer process; Python adds a helper process of its own."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(child) for child in children if b"spawn_main" in command_line(child)]

    def stop(self):
        """Its exit status; uvicorn re-raises the signal that ended it."""
        assert self.running.stop(signal.SIGINT) in (0, -signal.SIGINT, 130), self.running.error[-3000:]
        return self.running.error


@pytest.fixture
def serve(prepared, run):
    def start(*settings, workers=2):
        ports = free_port(), free_port()
        traces = [part for setting in settings for part in ("--trace-config", setting)]
        options = ["--http-port", ports[0], "--grpc-port", ports[1], "--workers", workers]
        server = Server(run(prepared / "venv/bin/python", EXAMPLE / "serve.py", *traces, *options, prepared / "models", name="serve",
                            env={"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}), ports)
        wait_for(server.ready, 120, "the server to be ready")
        return server
    return start


def traces_of(path):
    """[{"model_name": ..., "stamps": {name: ns}, "tensors": {...}, ...}] of a file of traces, including child traces."""
    found = {}
    for entry in json.loads(path.read_text()):
        trace = found.setdefault(entry["id"], {"stamps": {}, "tensors": {}})
        if "timestamps" in entry:
            trace["stamps"][entry["timestamps"][0]["name"]] = entry["timestamps"][0]["ns"]
        elif "tensor" in entry:
            trace["tensors"][entry["activity"], entry["tensor"]["name"]] = entry["tensor"]
        else:
            trace.update(entry)
    return list(found.values())


def argmax(text):
    output, = json.loads(text)["outputs"]
    rows, columns = output["shape"]
    return [max(range(columns), key=output["data"][i * columns:(i + 1) * columns].__getitem__) for i in range(rows)]


GOOD = {"name": "image", "datatype": "FP32", "shape": [1, 64], "data": IMAGE}
MALFORMED = [
    "", "[]", "5", '"inputs"', "[" * 100000, {"inputs": 5}, {"inputs": [5]}, {"inputs": {"image": 1}}, {"inputs": []},
    {"inputs": [GOOD], "outputs": 5}, {"inputs": [GOOD], "outputs": [{"name": "x"}]}, {"inputs": [GOOD], "parameters": 5},
    *({"inputs": [GOOD | wrong]} for wrong in (
        {"datatype": ["FP32"]}, {"datatype": "BYTES"}, {"datatype": "FP64"}, {"shape": "x"}, {"shape": [64]}, {"shape": [-1, 64]},
        {"shape": [1.5, 64]}, {"shape": [0, 64], "data": []}, {"shape": [2 ** 40, 64]}, {"name": ["image"]}, {"data": "x"}, {"data": [[1], [2, 3]]},
        {"data": [float("nan")] * 64}, {"data": [1e300] * 64}, {"parameters": 5}, {"parameters": {"binary_data_size": -4}},
        {"parameters": {"binary_data_size": 256}}, {"parameters": {"binary_data_size": "x"}}))]
UNWRITABLE = [
    "", "[]", "5", "[" * 100000, {}, {"messages": 5}, {"messages": {"content": "x"}}, {"messages": [{"content": 5}]},
    {"messages": [{"role": "user"}]}, {"messages": [{"content": "x" * 100000}]}, {"stream_options": 5}, {"max_tokens": 1.5}, {"max_tokens": True},
    {"temperature": "hot"}, {"temperature": float("nan")}, {"seed": 2 ** 70}, {"model": "reader"}]


def test_invalid_requests_are_refused(serve):
    """With a status that blames the client, and without output on the server's standard error."""
    server = serve(workers=1)
    for body in MALFORMED:
        status, text = server.call("POST", "/v2/models/reader/infer", body)
        assert (status, list(json.loads(text))) == (400, ["error"]), (str(body)[:200], text)
    chat = {"model": "writer", "messages": [{"role": "user", "content": "a"}], "max_tokens": 3, "temperature": 1e-9}
    for body in UNWRITABLE:
        status, text = server.call("POST", "/v1/chat/completions", body if isinstance(body, str) or not body else chat | body)
        assert status in (400, 404) and json.loads(text)["error"]["type"] == "invalid_request_error", (str(body)[:200], text)
    try:
        assert server.call("POST", "/v2/models/reader/infer", b" " * (17 << 20))[0] == 413
    except OSError:
        pass  # the server closed the connection before everything was sent
    assert server.call("POST", "/v1/chat/completions", chat)[0] == 200 and server.infer("reader")[0] == 200
    assert server.stop() == ""


def test_tritonclient_and_openai_clients_work(serve, prepared, clients, tmp_path):
    server = serve("level=OFF", f"triton,file={tmp_path}/t.json", workers=1)
    done = subprocess.run([clients, HERE / "inference_clients.py", str(server.port), str(server.grpc_port), prepared / "models/images.npy"],
                          capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:] + server.running.error[-2000:]
    said = json.loads(done.stdout)
    for client in (said["http"], said["grpc"]):
        assert (client["live"], client["ready"], client["models"]) == (True, True, [True, True, False])
        assert client["server"]["name"] == "sonde-inference-server" and "trace" in client["server"]["extensions"]
        assert client["digits"]["platform"] == "onnxruntime_onnx" and client["digits"]["inputs"][0]["name"] == "pixels"
        assert client["id"] == "tc" and len(client["reader"]) == 20
        assert client["cleared"] == client["global"] == client["settings"] and client["global"]["trace_level"] == ["OFF"]
        assert client["updated"] == client["of the model"] == client["global"] | {"trace_rate": ["7"], "trace_level": ["TIMESTAMPS", "TENSORS"]}
    over_http, over_grpc = said["http"], said["grpc"]
    assert over_http["reader"] == over_grpc["reader"] and over_http["json"] == over_http["binary"] == over_http["mixed"] == over_grpc["raw"]
    assert sum(a == b for a, b in zip(over_http["reader"], over_http["json"])) >= 6  # two different models classify the same images
    assert over_http["parallel"] == [[1, 10]] * 8
    assert [status for status, _ in over_http["refused"]] == ["404", "400", "400", "400", "404", "400"], over_http["refused"]
    codes = [status.removeprefix("StatusCode.") for status, _ in over_grpc["refused"]]
    assert codes == ["NOT_FOUND", "INVALID_ARGUMENT", "INVALID_ARGUMENT", "INVALID_ARGUMENT", "NOT_FOUND", "INVALID_ARGUMENT"], over_grpc["refused"]
    assert "trace_rate" in over_http["refused"][-1][1] and "trace_rate" in over_grpc["refused"][-1][1]

    chat = said["chat"]
    assert chat["streamed"] == chat["whole"] and chat["end"] == chat["stream's end"] and chat["stream's usage"] == chat["usage"]
    assert chat["usage"]["prompt_tokens"] == 3 and chat["parts"] == chat["usage"]["completion_tokens"] + 2 and chat["ids"] == 1
    assert chat["models"] == ["writer"] and chat["refused"] == [[404, "invalid_request_error"]] + [[400, "invalid_request_error"]] * 4
    assert server.stop() == ""


def test_messages_match_tritonclients_protocol(prepared, clients):
    """Every message has the names, numbers and types of tritonclient's."""
    script = ("import json, sys, importlib; from google.protobuf.descriptor_pb2 import FileDescriptorProto as F; f = F();"
              "importlib.import_module(sys.argv[1]).DESCRIPTOR.CopyToProto(f);"
              "walk = lambda m, p: [(p + m.name, x.name, x.number, x.type, x.label, x.type_name) for x in m.field] + "
              "[x for n in m.nested_type for x in walk(n, p + m.name + '.')];"
              "print(json.dumps([x for m in f.message_type for x in walk(m, '')] + [(s.name, x.name, x.input_type, x.output_type) for s in f.service "
              "for x in s.method]))")

    def fields(python, module, **environment):
        done = subprocess.run([python, "-c", script, module], capture_output=True, text=True, timeout=60, env=environment)
        assert done.returncode == 0, done.stderr
        return {tuple(field) for field in json.loads(done.stdout)}
    ours = fields(prepared / "venv/bin/python", "open_inference_pb2", PYTHONPATH=str(prepared / "protocol"))
    assert len(ours) > 60 and ours <= fields(clients, "tritonclient.grpc.service_pb2")


def leave(server, path, before):
    """Requests a long text and disconnects after its beginning; returns whether the server noticed. A client that is too slow has got all
    of it. `before`: the texts traced so far."""
    with socket.create_connection(("127.0.0.1", server.port)) as leaving:
        body = json.dumps({"model": "writer", "stream": True, "max_tokens": 1024, "temperature": 2, "messages": [{"role": "user", "content": "a"}]})
        leaving.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        assert b"200 OK" in leaving.recv(64)

    def writers():
        try:
            return [t for t in traces_of(path) if t["model_name"] == "writer"]
        except ValueError:  # read in the middle of a write
            return []
    wait_for(lambda: len(writers()) > before, 60, "the trace of who has gone")
    return any(t.get("status") for t in wait_for(writers))


def test_traces_of_requests_ensembles_refusals_and_disconnects(serve, tmp_path, sonde):
    """Requests, ensemble steps, refusals and disconnected clients: each with ordered timestamps."""
    server = serve("rate=1", "level=TIMESTAMPS", "level=TENSORS", f"triton,file={tmp_path}/t.json")
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda i: server.infer("reader", 1 + i % 3, request_id=f"r{i}"), range(24)))
    assert all(status == 200 and set(argmax(text)) == {0} for status, text in answers), answers[0]
    assert argmax(server.infer("forest", 8)[1]) == [0] * 8
    assert server.infer("reader", name="picture")[0] == 400 and server.infer("nobody")[0] == 404
    assert server.call("POST", "/v2/models/reader/infer", "{")[0] == 400
    text = server.call("POST", "/v1/chat/completions", {"model": "writer", "messages": [{"role": "user", "content": "a"}], "max_tokens": 20})[1]
    whole, left = server.call("GET", "/metrics")[1], 0
    while not leave(server, tmp_path / "t.json", 1 + left):
        left += 1
        assert left < 20, "no client left before the end"
    metrics = server.call("GET", "/metrics")[1]
    assert server.ready() and server.stop() == ""

    traces = traces_of(tmp_path / "t.json")
    roots = [t for t in traces if "parent_id" not in t]
    assert sorted((t["model_name"], t.get("status", "ok")) for t in roots) == sorted(
        [("reader", "ok")] * 24 + [("forest", "ok"), ("reader", "error"), ("reader", "error"), ("writer", "cancelled")] + [("writer", "ok")] * (1 + left))
    assert sorted(t["request_id"] for t in roots if t["model_name"] == "reader" and "status" not in t) == sorted(f"r{i}" for i in range(24))
    for t in traces:
        at = t["stamps"]
        computes = ["REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END", "REQUEST_END"]
        order = ["HTTP_RECV_START", "HTTP_RECV_END", *computes, "HTTP_SEND_START", "HTTP_SEND_END"] if "parent_id" not in t else computes
        if t["model_name"] == "reader" and "status" not in t:
            order = [name for name in order if not name.startswith("COMPUTE")]
        if "status" not in t:
            assert all(name in at for name in order), t
        stamped = [at[name] for name in order if name in at]
        assert stamped == sorted(stamped), t
    steps = [t for t in traces if "parent_id" in t]
    assert sorted(t["model_name"] for t in steps) == ["digits"] * 24 + ["scale"] * 24
    for t in steps:
        parent, = [root for root in roots if root["id"] == t["parent_id"]]
        rows = json.loads("[" + t["tensors"]["TENSOR_BACKEND_OUTPUT", "probabilities" if t["model_name"] == "digits" else "pixels"]["shape"] + "]")[0]
        assert rows == 1 + int(parent["request_id"][1:]) % 3
        assert parent["stamps"]["REQUEST_START"] <= t["stamps"]["REQUEST_START"] and t["stamps"]["REQUEST_END"] <= parent["stamps"]["REQUEST_END"]
    writer, = [t for t in roots if t.get("request_id") == json.loads(text)["id"]]
    assert writer["stamps"]["COMPUTE_START"] <= writer["stamps"]["FIRST_TOKEN"]
    usage, generation = json.loads(text)["usage"], writer["generation"]
    assert (generation["input_tokens"], generation["output_tokens"]) == (usage["prompt_tokens"], usage["completion_tokens"]), generation
    counts = re.findall(r'^gen_ai_client_token_usage_sum\{(.*)\} (\S+)$', whole, re.M)
    assert [float(sum) for labels, sum in counts if f'gen_ai_response_finish_reasons="{generation["finish_reason"]}"' in labels] == [
        usage["prompt_tokens"], usage["completion_tokens"]], whole
    assert re.search(r'^gen_ai_server_request_duration_seconds_count\{.*error_type="\w+".*\} 1$', metrics, re.M), metrics  # the disconnected client
    done = subprocess.run([sonde, "trace", "summary", "--json", tmp_path / "t.json"], capture_output=True, text=True, timeout=60)
    counts = {model["model_name"]: model["trace_count"] for model in json.loads(done.stdout)[0]["models"]}
    assert counts["digits"] == counts["scale"] == 24 and counts["forest"] == 1, done.stdout


def test_requests_are_batched_and_killed_workers_replaced(serve, run, sonde, root):
    """Concurrent requests are computed in one batch; a killed worker is replaced, and only its own batch fails."""
    server = serve(workers=1)
    watching = run(sonde, "probes", "watch", "inference_server:batch_formed", "-p", server.pid)
    wait_for(lambda: "attached to" in watching.error or not watching.alive, 60, "the watch to be attached")
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda i: server.infer("forest"), range(12)))
    assert [status for status, _ in answers] == [200] * 12
    sizes = wait_for(lambda: (sizes := list(map(int, re.findall(r"requests=(\d+) limit=8", watching.out)))) and sum(sizes) == 12 and sizes, 30,
                     "batches of twelve requests in all", watching.out)
    assert max(sizes) > 1
    assert watching.stop(signal.SIGINT) == 0

    before = server.children()
    for pid in before:  # the worker, and the writer process
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: len(after := server.children()) == len(before) and not set(before) & set(after), 60, "others in their place")
    wait_for(lambda: server.infer("reader")[0] == 200, 60, "the new worker")
    chat = {"model": "writer", "messages": [{"role": "user", "content": "a"}], "max_tokens": 20}
    wait_for(lambda: server.call("POST", "/v1/chat/completions", chat)[0] == 200, 60, "the new writer")
    children = server.children()
    server.stop()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), 30, "the children to end")


def test_unknown_option_is_refused(prepared, run):
    server = run(prepared / "venv/bin/python", EXAMPLE / "serve.py", "--trace-config", "rate=often", prepared / "models", name="serve")
    assert server.wait() == 1 and "--trace-config rate" in server.error and "Traceback" not in server.error


def test_demo_starts_serves_and_cleans_up(prepared, run, root):
    """`make demo`: everything starts, the load generator gets the expected responses, the page shows the requests; Ctrl-C ends all of it."""
    ports = [free_port() for _ in range(3)]
    names = dict(zip(("HTTP_PORT", "GRPC_PORT", "PAGE_PORT"), map(str, ports)), BUILD=str(BUILD))
    demo = run(EXAMPLE / "demo", name="demo", env=dict(os.environ, **names))

    def page(path):
        connection = http.client.HTTPConnection("127.0.0.1", ports[2], timeout=10)
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        finally:
            connection.close()
    wait_for(lambda: demo.out.count("in this second") >= 4 or not demo.alive, 200, "the load to run")
    assert demo.alive, demo.out + demo.error
    wait_for(lambda: "/v2/models/reader/infer" in page("/api/v1/requests?seconds=60"), 60, "the page to see requests", demo.error)
    os.killpg(demo.pid, signal.SIGINT)
    assert demo.wait(60) == 0, demo.out + demo.error
    counts = re.findall(r"load: (\w+) +(\d+), not as expected (\d+)", demo.out)
    assert len(counts) == 6 and sum(int(count) for _, count, _ in counts) > 20 and {wrong for _, _, wrong in counts} == {"0"}, demo.out
    for port in ports:
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", port), 1)
    for left in (["-g", str(demo.pid)], ["-f", f"serve.py.*{ports[0]}"]):
        wait_for(lambda: subprocess.run(["pgrep", *left], capture_output=True).returncode == 1, 30, "all processes to end")
