"""MLServer from PyPI with the inference provider: bpftrace receives every step of a request's path, and the server's behaviour does not change.

MLServer and its dependencies come from PyPI into an environment that is kept in the build directory; the tests are skipped without it."""
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pypi
import pytest
from harness.machine import free_port, need_command
from harness.processes import command_line, descriptors, wait_for
from python_package import PYTHONS, package  # noqa: F401 (a fixture)

HERE = Path(__file__).resolve().parent
pytestmark = [pytest.mark.timeout(600), pytest.mark.peer]  # the first test installs MLServer
NEEDED = ["mlserver==1.7.1", "uvloop<0.22"]


@pytest.fixture(scope="module")
def environment():
    """A Python with MLServer, whose version 1.7 supports no other version."""
    return pypi.environment("mlserver", NEEDED, PYTHONS, "(3, 9) <= sys.version_info < (3, 13)")


class Server:
    def __init__(self, running, ports, folder):
        self.running, self.pid, self.folder = running, running.pid, folder
        self.port, self.grpc_port, _ = ports

    def post(self, path, **body):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def ready(self):
        assert self.running.alive, self.running.error[-3000:]
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/v2/health/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def infer(self, model, name="in", way="infer"):
        return self.post(f"/v2/models/{model}/{way}", inputs=[{"name": name, "shape": [1, 2], "datatype": "FP32", "data": [1.0, 2.0]}])

    def workers(self):
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(child) for child in children if b"spawn_main" in command_line(child)]


@pytest.fixture
def serve(environment, package, run, tmp_path):  # noqa: F811
    """serve(provider, workers, sonde) -> Server. `provider` goes into settings.json; None leaves settings.json without Sonde."""
    def start(provider={}, workers=2, sonde=package):
        ports, models = [free_port() for _ in range(3)], tmp_path / "models"
        settings = {"host": "127.0.0.1", "http_port": ports[0], "grpc_port": ports[1], "metrics_port": ports[2], "parallel_workers": workers,
                    "cache_enabled": True, "debug": False}
        if provider is not None:
            settings |= {"model_repository_implementation": "sonde.mlserver.repository", "model_repository_implementation_args": provider}
        for name, kind, more in [("plain", "Echo", {}), ("batched", "Echo", {"max_batch_size": 4, "max_batch_time": 0.05}),
                                 ("cached", "Echo", {"cache_enabled": True}), ("stream", "Stream", {})]:
            (models / name).mkdir(parents=True)
            (models / name / "model-settings.json").write_text(json.dumps(
                {"name": name, "implementation": f"mlserver_model.{kind}", "parameters": {"version": "7", "extra": {}}, **more}))
        (models / "settings.json").write_text(json.dumps(settings))
        path = {"PYTHONPATH": f"{sonde}:{HERE}", "PATH": f"{environment}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
        running = run(environment / "python", environment / "mlserver", "start", models, cwd=tmp_path, env=path, name="mlserver")
        server = Server(running, ports, models)
        wait_for(server.ready, 90, "MLServer to be ready")
        return server
    return start


class Listener:
    """bpftrace, attached to all of `probes` on construction: {probe: [(pid, arguments...)]}."""

    def __init__(self, run, file, **probes):
        said = [f'usdt:{file}:mlserver:{name} {{ printf("{name} %lu %d {form}\\n", nsecs, pid, {", ".join(arguments)}); }}'
                for name, (form, *arguments) in probes.items()]
        # bpftrace attaches its probes one after another, in either order.
        self.running = run(need_command("bpftrace"), "-B", "none", "-e", "\n".join(
            ['interval:ms:50 { printf("first\\n"); }', *said, 'interval:ms:50 { printf("last\\n"); }']), name="bpftrace")
        wait_for(lambda: {"first", "last"} <= set(self.running.out.split("\n")) or not self.running.alive, 60, "bpftrace to be attached")
        assert self.running.alive, self.running.error

    def received(self, probe):
        """Sorted by time: bpftrace reads the CPUs' buffers one after another."""
        lines = [line.split(" ")[1:] for line in self.running.out.rpartition("\n")[0].split("\n") if line.startswith(probe + " ")]
        return [tuple(line[1:]) for line in sorted(lines, key=lambda line: int(line[0]))]

    def wait(self, counts, chosen=lambda event: True):
        """Waits until `counts` of the chosen events of each probe were received."""
        def all_heard():
            return all(len(list(filter(chosen, self.received(probe)))) >= count for probe, count in counts.items())
        wait_for(all_heard, 60, str(counts), self)

    def __str__(self):
        return self.running.out.replace("first\n", "").replace("last\n", "")[-3000:]


def one_file(folder):
    file, = folder.glob("mlserver-*.so")
    return file


PROBES = {
    "request_begin": ("%lx %s %d [%s]", "arg0", "str(arg1)", "arg3", "str(arg4)"), "request_end": ("%lx %d", "arg0", "arg1"),
    "cache_hit": ("%lx %s", "arg0", "str(arg1)"), "cache_miss": ("%lx %s", "arg0", "str(arg1)"),
    "batch_enter": ("%lx %s %d %lx", "arg0", "str(arg1)", "arg2", "arg3"), "batch_leave": ("%lx %s %lx %d", "arg0", "str(arg1)", "arg2", "arg3"),
    "batch_formed": ("%lx %s %d %d", "arg0", "str(arg1)", "arg2", "arg3"),
    "worker_dispatch": ("%lx %s %d %lx %s", "arg0", "str(arg1)", "arg2", "arg4", "str(arg5)"),
    "worker_dequeue": ("%lx %s %s", "arg0", "str(arg1)", "str(arg2)"),
    "predict_begin": ("%lx %s %s %lx", "arg0", "str(arg1)", "str(arg2)", "arg3"), "predict_end": ("%lx %d", "arg0", "arg1"),
    "worker_reply": ("%lx %d", "arg0", "arg1"), "worker_resolve": ("%lx %d", "arg0", "arg1"),
}
LIVES = {
    "worker_start": ("%d", "arg0"), "worker_stop": ("%d %d", "arg0", "(int32)arg1"),
    "model_load_begin": ("%lx %s %s", "arg0", "str(arg1)", "str(arg2)"), "model_load_end": ("%lx %d", "arg0", "arg1"),
    "model_reload_begin": ("%lx %s %s %s", "arg0", "str(arg1)", "str(arg2)", "str(arg3)"), "model_reload_end": ("%lx %d", "arg0", "arg1"),
    "model_unload_begin": ("%lx %s %s", "arg0", "str(arg1)", "str(arg2)"), "model_unload_end": ("%lx %d", "arg0", "arg1"),
}


def test_request_fires_every_probe_from_frontend_to_worker(serve, run, environment, tmp_path, tracefs):
    """From the main process through the batch queue to a worker and back, joined by ids; over REST and gRPC; failures are reported."""
    (tmp_path / "probes").mkdir()
    server = serve({"directory": str(tmp_path / "probes")})
    workers = set(map(str, server.workers()))
    listener = Listener(run, one_file(tmp_path / "probes"), **PROBES)
    assert server.infer("batched")[0] == 200
    assert server.infer("plain", "fail")[0] == 500 and server.infer("unknown")[0] == 404
    assert [server.infer("cached")[0] for _ in range(3)] == [200] * 3
    done = subprocess.run([environment / "python", HERE / "mlserver_model.py", str(server.grpc_port)], capture_output=True, text=True, timeout=60)
    assert done.stdout.split("\n")[0] == "answer by-grpc" and "part by-stream" in done.stdout, done.stdout + done.stderr
    listener.wait({"request_begin": 8, "request_end": 8, "cache_miss": 1, "cache_hit": 2, "batch_enter": 1, "batch_formed": 1, "batch_leave": 1,
                   "worker_dispatch": 5, "worker_dequeue": 5, "predict_begin": 5, "predict_end": 5, "worker_reply": 5, "worker_resolve": 5})

    requests = [begin for begin in listener.received("request_begin")]
    assert {request[0] for request in requests} == {str(server.pid)}
    assert [request[2:] for request in requests] == [
        ("batched", "0", "[]"), ("plain", "0", "[]"), ("unknown", "0", "[]"), *[("cached", "0", "[]")] * 3, ("plain", "0", "[by-grpc]"),
        ("stream", "1", "[]")]
    good = dict(end[1:] for end in listener.received("request_end"))
    assert [good[request[1]] for request in requests] == ["1", "0", "0", "1", "1", "1", "1", "1"]
    cached = [request[1] for request in requests[3:6]]
    assert [miss[1] for miss in listener.received("cache_miss")] == cached[:1] and [hit[1] for hit in listener.received("cache_hit")] == cached[1:]

    (_, entered, model, length, of), = listener.received("batch_enter")
    (_, batch, _, size, limit), = listener.received("batch_formed")
    assert (model, length, of, size, limit) == ("batched", "0", requests[0][1], "1", "4")
    assert [leave[1:] for leave in listener.received("batch_leave")] == [(entered, "batched", batch, "0")]

    dispatched = {dispatch[1]: dispatch for dispatch in listener.received("worker_dispatch")}
    causes = [batch, requests[1][1], requests[3][1], requests[6][1], requests[7][1]]
    assert [dispatch[4] for dispatch in dispatched.values()] == causes
    assert {dispatch[5] for dispatch in dispatched.values()} == {"predict"} and {dispatch[3] for dispatch in dispatched.values()} == workers
    succeeded = ["1", "0", "1", "1", "1"]
    for name in ("worker_dequeue", "predict_begin", "predict_end", "worker_reply"):
        assert {event[0] for event in listener.received(name)} == workers
    assert [(d[1], d[0]) for d in listener.received("worker_dequeue")] == [(id, d[3]) for id, d in dispatched.items()]
    assert [(b[0], b[2], b[3], b[4]) for b in listener.received("predict_begin")] == [(d[3], d[2], "7", id) for id, d in dispatched.items()]
    ends = dict(end[1:] for end in listener.received("predict_end"))
    assert [ends[begin[1]] for begin in listener.received("predict_begin")] == succeeded
    for name in ("worker_reply", "worker_resolve"):
        assert [reply[1:] for reply in listener.received(name)] == list(zip(dispatched, succeeded))


def test_model_and_worker_lifecycle_fires_probes(serve, run, tmp_path, tracefs):
    """Models are loaded, unloaded and fail to load; a worker dies and is replaced; the others end with the server."""
    (tmp_path / "probes").mkdir()
    server = serve({"directory": str(tmp_path / "probes")})
    main, workers = str(server.pid), list(map(str, server.workers()))
    listener = Listener(run, one_file(tmp_path / "probes"), **LIVES)

    def received(probe):
        return [event for event in listener.received(probe) if event[0] == main]

    def versioned(number, **extra):
        settings = json.loads((server.folder / "plain/model-settings.json").read_text())
        settings["parameters"] = {"version": number, "extra": extra}
        (server.folder / "plain/model-settings.json").write_text(json.dumps(settings))
    repository = "/v2/repository/models/"
    assert server.post(repository + "plain/load")[0] == 200
    assert server.post(repository + "plain/unload")[0] == 200
    versioned("8", broken=True)
    assert server.post(repository + "plain/load")[0] >= 400
    versioned("9")
    assert server.post(repository + "plain/load")[0] == 200
    listener.wait({"model_load_begin": 2, "model_load_end": 2, "model_reload_begin": 1, "model_reload_end": 1, "model_unload_begin": 2,
                   "model_unload_end": 2}, lambda event: event[0] == main)
    listener.wait({"model_load_begin": 2}, lambda event: event[0] in workers and event[3] == "9")
    assert [event[2:] for event in received("model_reload_begin")] == [("plain", "7", "7")]
    assert [event[2:] for event in received("model_load_begin")] == [("plain", "8"), ("plain", "9")]
    assert ("plain", "7") in [event[2:] for event in received("model_unload_begin")]
    good = dict(event[1:] for event in received("model_load_end") + received("model_reload_end") + received("model_unload_end"))
    assert [good[event[1]] for event in received("model_load_begin") + received("model_reload_begin")] == ["0", "1", "1"]
    in_workers = [event for event in listener.received("model_load_begin") if event[0] in workers]
    assert sorted(event[0] for event in in_workers if event[3] == "9") == sorted(workers)

    os.kill(int(workers[0]), signal.SIGKILL)
    listener.wait({"worker_start": 1})
    started = received("worker_start")[0][1]
    listener.wait({"model_load_end": 4}, lambda event: event[0] == started)
    server.running.stop()
    listener.wait({"worker_stop": 3})
    assert [event[1:] for event in received("worker_stop")] == [(workers[0], "-9"), (workers[1], "0"), (started, "0")]


def test_probes_without_worker_processes(serve, run, tmp_path, tracefs):
    """Everything runs in the main process, including a stream of three parts; only the chosen probes exist."""
    (tmp_path / "probes").mkdir()
    server = serve({"directory": str(tmp_path / "probes"), "probes": ["predict_*", "request_begin"]}, workers=0)
    file = one_file(tmp_path / "probes")
    listed = subprocess.run([need_command("bpftrace"), "-l", f"usdt:{file}:*"], capture_output=True, text=True, timeout=60).stdout
    assert sorted(re.findall(r":mlserver:(\w+)$", listed, re.M)) == ["predict_begin", "predict_end", "request_begin"]
    listener = Listener(run, file, **{name: PROBES[name] for name in ("predict_begin", "predict_end", "request_begin")})
    assert server.infer("plain")[0] == 200
    status, parts = server.infer("stream", way="infer_stream")
    assert status == 200 and parts.count("data: ") == 3
    listener.wait({"predict_begin": 2, "predict_end": 2, "request_begin": 2})
    begins = listener.received("predict_begin")
    assert [(begin[2], begin[4]) for begin in begins] == [(request[2], request[1]) for request in listener.received("request_begin")]
    assert sorted(end[1:] for end in listener.received("predict_end")) == sorted((begin[1], "1") for begin in begins)


def has_probes(pid):
    return any(kind.startswith("/memfd:mlserver ") for kind in descriptors(pid).values())


def test_provider_is_off_by_default(serve):
    server = serve(None)
    assert server.infer("plain")[0] == 200
    assert not any(map(has_probes, [server.pid, *server.workers()])) and "sonde" not in server.running.error


def test_mlserver_with_changed_functions_loses_only_their_probes(serve, package, tmp_path):  # noqa: F811
    """Functions with another signature are left out, with one warning; the other probes exist."""
    shutil.copytree(package / "sonde", tmp_path / "another/sonde")
    (tmp_path / "another/sitecustomize.py").write_text("""
from mlserver.batching.adaptive import AdaptiveBatcher
async def predict(self, request, queue=AdaptiveBatcher.predict):
    return await queue(self, request)
AdaptiveBatcher.predict = predict
""")
    server = serve(workers=0, sonde=tmp_path / "another")
    assert server.infer("batched")[0] == 200 and has_probes(server.pid)
    assert server.running.error.count("RuntimeWarning: sonde") == 1
    assert "no probes of batch (AdaptiveBatcher.predict has other parameters)" in server.running.error


@pytest.mark.parametrize("provider, why", [({"probes": ["nonsense_*"]}, "no such probes: nonsense_*"),
                                           ({"directory": "/nowhere/at/all"}, "No such file or directory"),
                                           ({"dirctory": "/tmp"}, "takes no dirctory: left out")])
def test_invalid_settings_are_refused(serve, provider, why):
    server = serve(provider, workers=0)
    assert server.infer("batched")[0] == 200
    assert server.running.error.count("RuntimeWarning: sonde") == 1 and why in server.running.error


def test_empty_list_of_probes_creates_none(serve):
    server = serve({"probes": []}, workers=0)
    assert server.infer("batched")[0] == 200
    assert not has_probes(server.pid) and "sonde" not in server.running.error


def test_server_runs_without_the_native_extension(serve, package, tmp_path):  # noqa: F811
    shutil.copytree(package / "sonde", tmp_path / "silent/sonde", ignore=shutil.ignore_patterns("*.so"))
    server = serve(workers=0, sonde=tmp_path / "silent")
    assert server.infer("batched")[0] == 200 and server.infer("cached")[0] == 200
    assert server.running.error.count("RuntimeWarning: sonde") == 1 and "probes are inactive" in server.running.error
