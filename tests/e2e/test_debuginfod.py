"""Debug files from debuginfod servers (`sonde record --lines` with DEBUGINFOD_URLS): compared with addr2line; from elfutils' own server, and from
servers that return wrong data, stall, or are down. One recording is replayed throughout."""
import http.server
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

import pprof
from harness.machine import free_port, need_command, need_root, skip
from harness.processes import wait_for
from harness.recording import FIRED
from source_lines import LINES, addr2line, dwz, eu_addr2line, places

def build_id(path):
    said = subprocess.run([need_command("readelf"), "-n", path], capture_output=True, text=True, check=True).stdout
    return re.search(r"Build ID: (\w+)", said)[1]


def put_apart(path, folder):
    """Moves the debug information of an ELF file into a directory that is not searched. Returns its path."""
    apart = folder / (path.name + ".debug")
    subprocess.run(["objcopy", "--only-keep-debug", path, apart], check=True)
    subprocess.run(["strip", path], check=True)
    return apart


class Server(http.server.ThreadingHTTPServer):
    """Serves `files` ({build id: path}); `behave(handler, content or None)` writes the response."""
    daemon_threads = True

    def __init__(self, files=(), behave=None):
        self.files, self.behave, self.requested_paths, self.ended = dict(files), behave or answer, [], False
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def handle_error(self, request, address):
        """Ignores clients that close the connection early."""

    def close(self):
        self.ended = True
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.requested_paths.append(self.path)
        found = re.fullmatch(r"/buildid/([0-9a-f]+)/debuginfo", self.path)
        path = self.server.files.get(found[1]) if found else None
        self.close_connection = True
        self.server.behave(self, path.read_bytes() if path else None)

    def log_message(self, *_):
        pass


def reply(handler, status, body=b"", **headers):
    handler.send_response(status)
    for name, value in {"Content-Length": len(body), "Connection": "close", **headers}.items():
        handler.send_header(name.replace("_", "-"), str(value))
    handler.end_headers()
    handler.wfile.write(body)


def answer(handler, content):
    reply(handler, 200 if content else 404, content or b"not here")


def endless_body(piece, pause_s=0, **headers):
    """A response body without end."""
    def behave(handler, _):
        handler.send_response(200)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        while not handler.server.ended:
            handler.wfile.write(piece)
            handler.wfile.flush()
            time.sleep(pause_s)
    return behave


@pytest.fixture
def serve():
    """serve(files, behave) -> Server"""
    servers = []

    def start(*arguments):
        servers.append(Server(*arguments))
        return servers[-1]
    yield start
    for server in servers:
        server.close()


class Recorded:
    """A recording of a program and its library, with the files that its replay needs. Debug file caches are in the directory `own`."""

    def __init__(self, sonde, folder):
        self.sonde, self.folder, self.own = sonde, folder, folder
        (folder / "apart").mkdir()
        for name in ("library.c", "library_user.c", "fire.h"):
            shutil.copy(LINES / name, folder / name)
        gcc = [need_command("gcc"), "-O2", "-gdwarf-4", "-Wl,--build-id"]
        self.library, self.program = folder / "libouter.so", folder / "program"
        subprocess.run([*gcc, "-shared", "-fPIC", "-o", self.library, "library.c"], check=True, cwd=folder)
        subprocess.run([*gcc, "-o", self.program, "library_user.c", self.library], check=True, cwd=folder)

    def record(self):
        done = subprocess.run([self.sonde, "record", "--event", FIRED, "--record-events", self.folder / "wire", "-o", self.folder / "live.folded", "--", self.program],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr

    def strip(self):
        self.apart = {path: put_apart(path, self.folder / "apart") for path in (self.program, self.library)}
        self.files = {build_id(path): apart for path, apart in self.apart.items()}

    def command(self, output):
        return [self.sonde, "record", "--replay", self.folder / "wire", "-o", output, "--inlines"]

    def environment(self, *urls, cache="cache", **variables):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("DEBUGINFOD_") and "proxy" not in name.lower()}
        return {**clean, "DEBUGINFOD_CACHE_PATH": str(self.own / cache), **({"DEBUGINFOD_URLS": " ".join(urls)} if urls else {}),
                **{"DEBUGINFOD_" + name: str(value) for name, value in variables.items()}}

    def replay(self, *urls, output="-", **variables):
        """(standard output, standard error)"""
        done = subprocess.run(self.command(output), env=self.environment(*urls, **variables), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and (output != "-" or ";outer" in done.stdout), done.stderr
        return done.stdout, done.stderr

    def left(self, cache="cache"):
        """The names of the non-empty files in a cache."""
        return sorted(path.name for path in (self.own / cache).rglob("*") if path.is_file() and path.stat().st_size)


@pytest.fixture(scope="module")
def recorded_once(sonde, tmp_path_factory):
    need_root()
    it = Recorded(sonde, tmp_path_factory.mktemp("debuginfod"))
    it.record()
    it.strip()
    return it


@pytest.fixture
def recorded(recorded_once, tmp_path):
    recorded_once.own = tmp_path
    return recorded_once


@pytest.mark.sanitized
def test_lines_match_addr2line_with_fetched_debug_files(recorded, serve):
    """One server is down, one does not have the file, the third one does: lines match addr2line's. Later replays need no server."""
    without, theirs = serve(), serve(recorded.files)
    down = socket.socket()
    down.bind(("127.0.0.1", 0))  # bound but not listening
    urls = (f"http://127.0.0.1:{down.getsockname()[1]}/", without.url + "/", theirs.url)
    output = recorded.own / "lines.pb.gz"
    assert "inner" not in recorded.replay()[0] and not without.requested_paths and not theirs.requested_paths  # servers that are not configured get no request
    _, said = recorded.replay(*urls, output=output)
    samples, _ = pprof.read(output)
    for path, apart in recorded.apart.items():
        ours = places(samples, path)
        expected = {address: chain for address, chain in addr2line(apart, ours).items() if chain[0][1]}
        expected = {address: chain if ours[address] == chain else eu_addr2line(apart, address) for address, chain in expected.items()}
        assert expected and {address: ours[address] for address in expected} == expected, said
    assert f"the debuginfod server {urls[0].rstrip('/')} failed and was not used any further" in said and f"{theirs.url} failed" not in said, said
    assert set(without.requested_paths) >= {f"/buildid/{key}/debuginfo" for key in recorded.files}
    entry = recorded.own / "cache" / next(iter(recorded.files)) / "debuginfo"
    assert entry.stat().st_mode & 0o7777 == 0o400 and (recorded.own / "cache").stat().st_mode & 0o777 == 0o700
    folded, said = recorded.replay(urls[0])
    assert "outer;inner_[i]" in folded and "(2 cached)" in said, said
    down.close()


def test_missing_debug_files_are_cached_as_missing(recorded, serve):
    """Negative results last ten minutes."""
    server = serve()
    _, said = recorded.replay(server.url)
    assert re.search(r"0 debug files from debuginfod, \d+ missing: \d+ not on any server", said), said
    asked = list(server.requested_paths)
    assert len(asked) == len(set(asked)) >= 2
    recorded.replay(server.url)
    assert server.requested_paths == asked
    for path in (recorded.own / "cache").rglob("debuginfo"):
        os.utime(path, (1, 1))
    recorded.replay(server.url)
    assert len(server.requested_paths) > len(asked)


def loop(handler, _):
    reply(handler, 302, Location=f"http://localhost:{handler.server.server_port}/{len(handler.server.requested_paths)}")


HOSTILE = {  # server behaviour and the expected message
    "garbage": (lambda h, _: reply(h, 200, b"\x7fELF" + os.urandom(4000)), "not an ELF file with the requested build ID"),
    "nothing": (lambda h, _: reply(h, 200), "not an ELF file with the requested build ID"),
    "another's": (lambda h, _: reply(h, 200, next(path for key, path in h.server.files.items() if key not in h.path).read_bytes()),
                  "not an ELF file with the requested build ID"),
    "cut": (lambda h, content: reply(h, 200, (content or b"")[:2000]), "not an ELF file with the requested build ID"),
    "error": (lambda h, _: reply(h, 503), "503"),
    "loop": (loop, "redirects"),
    "file": (lambda h, _: reply(h, 302, Location="file:///etc/passwd"), "not used any further"),
    "endless": (endless_body(bytes(1 << 16)), "too large"),
    "huge": (endless_body(b"", 0.05, Content_Length=str(1 << 30)), "too large"),
    "drip": (endless_body(b"x", 0.1), "not used any further"),
    "silent": (lambda h, _: wait_for(lambda: h.server.ended, 100), "not used any further"),
}


@pytest.mark.thorough
@pytest.mark.sanitized
def test_hostile_servers_do_not_affect_names_or_other_servers(recorded, serve):
    """Whatever a server sends, names and stacks are unaffected, the good server is used, and no wrong data is kept."""
    plain, good = recorded.replay()[0], serve(recorded.files)
    for name, (behave, text) in HOSTILE.items():
        server = serve(recorded.files, behave)
        limits = {"MAXSIZE": 1000000, **({"TIMEOUT": 1} if name in ("drip", "silent") else {})}
        folded, said = recorded.replay(server.url, cache=name, **limits)
        assert folded == plain and text in said and recorded.left(name) == [], f"{name}: {said} {recorded.left(name)}"
        asked = [path for path in server.requested_paths if path.startswith("/buildid/")]
        assert len(asked) == 1 or text == "too large", f"{name}: {asked}"
        if name in ("garbage", "another's", "endless"):
            folded, said = recorded.replay(server.url, good.url, cache=name, **limits)
            assert "outer;inner_[i]" in folded and recorded.left(name) == ["debuginfo"] * 2, f"{name}: {said}"
        server.close()


def test_damaged_cache_is_repaired(recorded, serve):
    """Whatever wrote to it; symbolic links and directories in the cache are not followed."""
    good = serve(recorded.files)
    recorded.replay(good.url)
    one, other = [recorded.own / "cache" / key / "debuginfo" for key in recorded.files]
    one.unlink()
    one.write_bytes(b"\x7fELF" + bytes(5000))
    other.unlink()
    other.symlink_to("/dev/zero")
    folded, said = recorded.replay(good.url)
    assert "outer;inner_[i]" in folded and one.read_bytes() and other.is_file() and not other.is_symlink(), said


def test_ctrl_c_ends_the_fetching_and_keeps_the_profile(recorded, serve, run):
    server = serve(recorded.files, endless_body(b"x", 0.1))
    output = recorded.own / "a.pb.gz"
    recording = run(*recorded.command(output), env=recorded.environment(server.url))
    wait_for(lambda: server.requested_paths or not recording.alive, 60)
    recording.process.send_signal(signal.SIGINT)
    assert recording.wait() == 0, recording.error
    samples, _ = pprof.read(output)
    assert any("outer" in s.frames for s in samples) and recorded.left() == [], recording.error
    assert "skipped because the search was stopped" in recording.error and len(server.requested_paths) == 1, recording.error


def test_cache_of_another_user_is_not_written(recorded, serve):
    """For example root with a user's environment."""
    server = serve(recorded.files)
    cache = recorded.own / "cache"
    cache.mkdir()
    os.chown(cache, 65534, 65534)
    for path in (cache, cache / "below"):
        _, said = recorded.replay(server.url, cache=path)
        assert "belongs to another user" in said and server.requested_paths == [] and list(cache.iterdir()) == [], said


def test_supplementary_files_of_dwz_are_fetched(sonde, root, tmp_path, serve):
    it = Recorded(sonde, tmp_path)
    dwz(it.program)
    shared = tmp_path / "shared.debug"
    it.record()
    it.strip()
    shutil.move(shared, tmp_path / "apart/shared.debug")
    folded, said = it.replay(serve(it.files).url, cache="one")
    assert "damaged or incomplete" in said, said
    it.files[build_id(tmp_path / "apart/shared.debug")] = tmp_path / "apart/shared.debug"
    output = tmp_path / "lines.pb.gz"
    folded, said = it.replay(serve(it.files).url, output=output)
    assert "3 debug files from debuginfod" in said and "damaged" not in said, said
    samples, _ = pprof.read(output)
    assert {chain[-1][1] for chain in places(samples, it.program).values() if chain[-1][0] == "main"} == {str(tmp_path / "library_user.c")}


@pytest.mark.peer
def test_works_with_elfutils_server_and_client(recorded, run, serve):
    """Elfutils' own server supplies what we request, and its client finds our files in the cache."""
    server = need_command("debuginfod")
    port = free_port()
    (recorded.own / "home").mkdir()
    running = run(server, "-p", port, "-d", ":memory:", "-F", recorded.folder / "apart", env=recorded.environment() | {"HOME": str(recorded.own / "home")})
    url = f"http://127.0.0.1:{port}"

    def has(key):
        done = subprocess.run([need_command("curl"), "-s", "-m", "10", "--noproxy", "*", "-o", "/dev/null", "-w", "%{http_code}", f"{url}/buildid/{key}/debuginfo"],
                              capture_output=True, text=True)
        return done.stdout == "200"
    wait_for(lambda: not running.alive or all(map(has, recorded.files)), 120, "debuginfod to have scanned all files")
    if not running.alive:
        skip("debuginfod: " + running.error.strip()[-200:])
    folded, said = recorded.replay(url)
    assert "outer;inner_[i]" in folded and "2 debug files from debuginfod" in said, said
    running.stop()
    client = need_command("debuginfod-find")
    for key in recorded.files:
        done = subprocess.run([client, "debuginfo", key], env=recorded.environment(url), capture_output=True, text=True, timeout=60)
        assert Path(done.stdout.strip()) == recorded.own / "cache" / key / "debuginfo", done.stderr
