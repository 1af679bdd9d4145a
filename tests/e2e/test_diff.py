"""`sonde diff` compared with `go tool pprof`, on profiles of Sonde and of Go's own profiler; and on windows of a running agent."""
import gzip
import http.server
import json
import os
import re
import subprocess
import threading

import pprof
import pytest
from harness.machine import need_command, need_root
from harness.paths import BUILD, WORKLOADS, TOP
from harness.processes import wait_for
from harness.workloads import go_pprof, workload_path

@pytest.fixture(scope="module")
def recorded(sonde, tmp_path_factory):
    """Two profiles of page faults, most of them in one function, which has more in the second."""
    need_root()
    folder, paths = tmp_path_factory.mktemp("recorded"), []
    for name, pages in (("before", 300), ("after", 3000)):
        paths.append(folder / f"{name}.pb.gz")
        subprocess.run([sonde, "record", "--event", "page-faults", "-o", paths[-1], "--", workload_path("eventful"), str(pages), "10"], stdin=subprocess.DEVNULL,
                       check=True, capture_output=True, timeout=60)
    return paths


@pytest.fixture(scope="module")
def generated_profiles(tmp_path_factory):
    """Two profiles of CPU time that tests/unit/export/make_profiles.c writes."""
    program = BUILD / "tests/unit/export/make-profiles"
    if not program.exists():
        pytest.fail(f"{program} has not been built")
    folder = tmp_path_factory.mktemp("made")
    subprocess.run([program, folder], check=True, timeout=60)
    return folder / "typical.pb.gz", folder / "deep.pb.gz"


def diff(sonde, *arguments):
    return subprocess.run([sonde, "diff", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


def rows_of(said):
    """Shares in percent (before, after) by function."""
    found = re.findall(r"^ *([+-][\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)  (.*)$", said, re.M)
    assert all(abs(float(after) - float(before) - float(change)) < 0.011 for change, before, after, _, _ in found)
    return {name: (float(before), float(after)) for _, before, after, _, name in found}


def shares_of(path, column):
    """What go tool pprof prints per function; column 1: self, 4: total."""
    said = go_pprof("-top", "-nodecount=100000", "-nodefraction=0", "-functions", "-unit=ns", path)
    lines = [line.split(None, 5) for line in said.splitlines() if re.match(r" *[\d.]+(ns)? +[\d.]+% ", line)]
    shares = {}
    for words in lines:
        name = words[5].removesuffix(" (inline)").removesuffix(" (partial-inline)")
        shares[name] = shares.get(name, 0) + float(words[column].rstrip("%"))
    return shares


def assert_same_shares(sonde, before, after, total):
    said = diff(sonde, before, after, "--all", "-n", 100000, *(["--total"] if total else []))
    assert said.returncode == 0, said.stderr
    ours = rows_of(said.stdout)
    theirs = [shares_of(path, 4 if total else 1) for path in (before, after)]
    compared = 0
    for name, shares in ours.items():
        for side in range(2):
            assert abs(shares[side] - theirs[side].get(name, 0)) <= 0.02, (name, shares, theirs[side].get(name))  # both are rounded
            compared += shares[side] > 1
    assert compared >= 2, said.stdout
    for side in range(2):
        missing = {name for name, share in theirs[side].items() if share > 0.05} - set(ours)
        assert all(abs(theirs[0].get(name, 0) - theirs[1].get(name, 0)) <= 0.02 for name in missing), missing
    return ours


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def message(*fields):
    """A protobuf message of (number of the field, number or bytes)."""
    return b"".join(varint(field << 3) + varint(value) if isinstance(value, int) else varint(field << 3 | 2) + varint(len(value)) + value
                    for field, value in fields)


def write_pprof(path, types, rows, period=None):
    """A pprof file: `types` are pairs of strings, `rows` are (function, a value of each type), `period` is a value of the last type."""
    texts = ["", *dict.fromkeys([text for pair in types for text in pair] + [function for function, *_ in rows])]
    pairs = [message((1, texts.index(name)), (2, texts.index(unit))) for name, unit in types]
    functions = list(dict.fromkeys(function for function, *_ in rows))
    fields = [(1, pair) for pair in pairs]
    fields += [(2, message((1, 1 + functions.index(function)), (2, b"".join(map(varint, values))))) for function, *values in rows]
    fields += [(4, message((1, i), (4, message((1, i))))) for i in range(1, len(functions) + 1)]
    fields += [(5, message((1, i), (2, texts.index(function)))) for i, function in enumerate(functions, 1)]
    fields += [(6, text.encode()) for text in texts]
    if period:
        fields += [(11, pairs[-1]), (12, period)]
    path.write_bytes(message(*fields))
    return path


def test_counted_events_are_compared_exactly(sonde, tmp_path):
    """300 calls that took 8 pages, then 10: a change if every event was counted, possibly random variation if sampled."""
    def ask(unit, period):
        sides = [write_pprof(tmp_path / name, [("samples", "count"), ("mmap", unit)], [("grows", 300, 300 * pages * 4096), ("stays", 300, 300 * 8 * 4096)], period)
                 for name, pages in (("before", 8), ("after", 10))]
        said = diff(sonde, *sides).stdout
        return said, rows_of(said)
    said, rows = ask("bytes", 1)
    assert rows == {"grows": (50.0, 55.56), "stays": (50.0, 44.44)} and "the values are exact" in said, said
    for unit, period in (("bytes", 4096), ("bytes", None), ("nanoseconds", 1)):
        said, rows = ask(unit, period)
        assert not rows and "exact" not in said and "no function's share changed beyond sampling noise" in said and " 2 changed within sampling noise" in said, said


def test_single_heavy_sample_is_not_significant(sonde, tmp_path):
    """A sleep of 1.1 s, then 1.2 s, among 10,000 short waits is no change; the same time in as many waits as the rest has is one."""
    def ask(waits):
        sides = [write_pprof(tmp_path / name, [("waits", "count"), ("off_cpu", "nanoseconds")], [("sleep", waits, ms * 10**6), ("poll", 10000, 1800 * 10**6)])
                 for name, ms in (("before", 1100), ("after", 1200))]
        return diff(sonde, *sides).stdout, diff(sonde, *sides, "--all").stdout
    said, everything = ask(1)
    assert not rows_of(said) and " 2 changed within sampling noise" in said, said
    assert rows_of(everything) == {"sleep": (37.93, 40.0), "poll": (62.07, 60.0)}, everything
    bounds = [float(bound) for bound in re.findall(r"^ *[+-][\d.]+ +[\d.]+ +[\d.]+ +([\d.]+)  ", everything, re.M)]
    assert len(bounds) == 2 and all(50 < bound <= 100 for bound in bounds), everything
    said, _ = ask(10000)
    assert rows_of(said) == {"sleep": (37.93, 40.0), "poll": (62.07, 60.0)}, said


@pytest.mark.peer
@pytest.mark.parametrize("total", [False, True], ids=["self", "total"])
def test_shares_match_go_tool_pprof(sonde, recorded, total):
    ours = assert_same_shares(sonde, *recorded, total)
    assert "touch_pages" in ours


@pytest.mark.parametrize("total", [False, True], ids=["self", "total"])
def test_shares_match_the_profiles(sonde, recorded, total):
    """Of each function, self and total."""
    rows = rows_of(diff(sonde, *recorded, "--all", "-n", 100000, *(["--total"] if total else [])).stdout)
    for side, path in enumerate(recorded):
        samples, _ = pprof.read(path)
        whole, shares = sum(s.ns for s in samples), {}
        for s in samples:
            for name in set(s.frames) if total else {s.frames[-1]}:
                shares[name] = shares.get(name, 0) + 100 * s.ns / whole
        assert all(abs(row[side] - shares.get(name, 0)) <= 0.006 for name, row in rows.items()), (rows, shares)
    assert rows["touch_pages"][0] < rows["touch_pages"][1]


@pytest.mark.statistical
@pytest.mark.peer
def test_diff_of_go_profiles(sonde, tmp_path):
    """Go's own profiles: the largest increase comes first, the largest decrease last; a profile has no change compared with itself."""
    program, before, after = tmp_path / "own", tmp_path / "before", tmp_path / "after"
    subprocess.run([need_command("go"), "build", "-o", program, TOP / "tests/workloads/own_profiler.go"], check=True, timeout=500,
                   env=dict(os.environ, GO111MODULE="off", GOCACHE=str(WORKLOADS / ".go")))
    for cpu_time in ("1500ms", "6s", "24s"):  # a busy machine delivers fewer of its signals
        subprocess.run([program, before, "lqqq", cpu_time], check=True, timeout=200)
        subprocess.run([program, after, "lllq", cpu_time], check=True, timeout=200)
        counts = [int(count) for count in re.findall(r"(\d+) samples in", diff(sonde, before, after, "--value", "samples").stdout)]
        if min(counts) >= 120:
            break
    assert_same_shares(sonde, before, after, True)
    said = diff(sonde, before, after, "-t")
    names = list(rows_of(said.stdout))
    assert names and names[0] == "main.loud" and names[-1] == "main.quiet", said.stdout
    for path in (before, after):
        assert not rows_of(diff(sonde, path, path, "--all").stdout)
    plain = tmp_path / "plain"
    plain.write_bytes(gzip.decompress(before.read_bytes()))
    assert diff(sonde, plain, after, "-t").stdout == said.stdout
    assert rows_of(diff(sonde, before, after, "--value", "samples").stdout)


def test_uncompressed_profile_is_read(sonde, generated_profiles, tmp_path):
    before, after = generated_profiles
    plain = tmp_path / "plain"
    plain.write_bytes(gzip.decompress(before.read_bytes()))
    assert diff(sonde, plain, after, "-t").stdout == diff(sonde, before, after, "-t").stdout
    assert not rows_of(diff(sonde, plain, before, "--all").stdout)


def test_folded_output_has_equal_sums(sonde, recorded):
    """Both columns have the same sum, whatever the sizes of the recordings."""
    lines = diff(sonde, *recorded, "--folded").stdout.splitlines()
    sums = [sum(int(line.rsplit(" ", 2)[side]) for line in lines) for side in (1, 2)]
    assert sums[0] > 0 and abs(sums[0] - sums[1]) <= len(lines)
    assert any(line.startswith("eventful;") and ";touch_pages " in line for line in lines)


def test_flame_graph_matches_the_text(sonde, generated_profiles, tmp_path):
    """Both sides of the page have the same total, and its shares equal the shares in the text output. web/tests/page.test.mjs tests their display."""
    (before, after), page = generated_profiles, tmp_path / "diff.html"
    done = diff(sonde, before, after, "-o", page)
    assert done.returncode == 0 and not done.stdout, done.stderr
    assert diff(sonde, before, before, "-o", tmp_path / "same.html").returncode == 0
    assert "<title>Sonde: CPU time, before and after: 60.0 s, 60.0 s</title>" in (tmp_path / "same.html").read_text()
    page_data = json.loads(re.search(r'<script id="profile"[^>]*>(.*?)</script>', page.read_text(), re.S)[1])
    names = [frame["name"] for frame in page_data["shared"]["frames"]]
    shares, sums = {}, [0, 0]
    for process in page_data["profiles"]:
        for stack, *sides in zip(process["samples"], process["sonde"]["before"], process["weights"]):
            for side in range(2):
                sums[side] += sides[side]
            if stack:
                shares.setdefault(names[stack[-1]], [0, 0])
                for side in range(2):
                    shares[names[stack[-1]]][side] += sides[side] / 1e7
    assert all(abs(total - 1e9) <= 1000 for total in sums), sums
    rows = rows_of(diff(sonde, before, after, "--all", "-n", 100000).stdout)
    assert rows and all(abs(shares[name][side] - row[side]) <= 0.011 for name, row in rows.items() for side in range(2))
    assert diff(sonde, before, after, "-o", tmp_path / "diff.pb.gz").returncode == 2
    done = diff(sonde, before, after, "-o", tmp_path / "no/diff.html")
    assert done.returncode == 1 and "diff: " in done.stderr and "No such file" in done.stderr


class FrozenPage:
    """A proxy to an agent's page that freezes its clock: windows are given relative to now, and must not move while the test runs."""

    def __init__(self, agent):
        now_ms = json.loads(agent.text("/api/v1/status"))["now_ms"]

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status, headers, body = agent.get(self.path, timeout_s=60)
                if self.path == "/api/v1/status":
                    body = json.dumps(json.loads(body) | {"now_ms": now_ms}).encode()
                self.send_response(status)
                self.send_header("Content-Type", headers["Content-Type"])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass
        self.now_ms, self.server = now_ms, http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def window(self, begin_ms, end_ms):
        return f"{self.now_ms - begin_ms}ms..{self.now_ms - end_ms}ms"


def hotspots_change(started, pid, changed_ms):
    """A program that ends before `changed_ms` appears in no later window and one started after it in no earlier one; each window's rows sum to it."""
    def ask(query):
        return json.loads(started.text(f"/api/v1/hotspots?seconds=3600&{query}"))
    for query in ("max=1", "max=7&order=change", "max=1000", "max=1000&by=total", f"max=2&pid={pid}"):
        page_data = ask(query)
        windows, rows = page_data["windows"], page_data["rows"]
        sums = [sum(row["weights_ns"][i] for row in rows) for i in range(len(windows))]
        if "total" not in query:
            assert [sum_ + window["others_ns"] for sum_, window in zip(sums, windows)] == [window["weight_ns"] for window in windows], query
        assert all(sum(row["weights_ns"]) == row["weight_ns"] for row in rows) and len(rows) <= page_data["functions"]

    def is_weight_of_profile():  # eventually: the newest samples may still arrive
        window = next(w for w in ask(f"max=2&pid={pid}")["windows"] if w["from_ms"] == of_pid["from_ms"])
        profile = json.loads(started.text(f"/api/v1/profile?from={window['from_ms']}&to={window['to_ms']}&pid={pid}"))
        return profile["sonde"]["weight_ns"] == window["weight_ns"] > 0
    of_pid = max(windows, key=lambda window: window["weight_ns"])
    wait_for(is_weight_of_profile, 60, f"the profile to weigh what its window does: {of_pid}")
    page_data = ask("max=1000")
    weights = {row["name"]: row["weights_ns"] for row in page_data["rows"] if row["name"] in ("never_returns", "deep_leaf")}
    for i, window in enumerate(page_data["windows"]):
        assert weights["deep_leaf"][i] == 0 or window["to_ms"] > changed_ms, (window, weights)
        assert weights["never_returns"][i] == 0 or window["from_ms"] <= changed_ms, (window, weights)


@pytest.mark.alone  # other tests run functions of the same names
def test_diff_of_an_agents_windows(sonde, agent, run, tmp_path):
    """Runs one program, then another: the diff lists functions with more time in the later window first, functions with less time last. The heatmap's slots of 20 ms
    agree with the profile of the same interval, and hotspots list each program only while it ran."""
    started = agent("--rate", 99, "--set", "budget.one_cpu=1000%", "--set", "budget.memory=1GiB")

    def samples(pid):
        return sum(int(line.rpartition(" ")[2]) for line in started.text(f"/api/v1/profile?format=folded&pid={pid}").splitlines())

    def now_ms():
        return json.loads(started.text("/api/v1/status"))["now_ms"]
    moments = []
    for workload, *arguments in (("noreturn", 200), ("deep", 10, 200)):
        began_ms = now_ms()
        one = run(workload_path(workload), *arguments, name=workload)
        wait_for(lambda: samples(one.pid) >= 100, 120, "a hundred samples")
        one.stop()
        moments.append((began_ms, now_ms()))
    page_of = FrozenPage(started)
    first, second = (page_of.window(*moment) for moment in moments)
    address = page_of.address
    said = diff(sonde, "--window", first, "--window", second, "--agent", address, "-t", "-n", 100000)
    assert said.returncode == 0, said.stderr
    names = list(rows_of(said.stdout))
    assert names.index("deep_leaf") < names.index("never_returns"), said.stdout
    assert not {"deep_leaf", "never_returns"} & set(rows_of(diff(sonde, "--window", first, "--window", first, "--agent", address, "-t").stdout))
    page, both = tmp_path / "windows.html", page_of.window(moments[0][0], moments[1][1])
    assert diff(sonde, "--window", both, "--window", second, "--agent", address, "-p", one.pid, "-o", page).returncode == 0
    assert "deep_leaf" in page.read_text() and "never_returns" not in page.read_text()

    hotspots_change(started, one.pid, moments[1][0])
    before_ms, heatmap = now_ms(), heatmap_of(started)
    assert heatmap["slot_ms"] == 20 and 0 <= heatmap["now_ms"] - before_ms < 600000 and all(second["kept"] for second in heatmap["seconds"])
    settled = (moments[1][1] - heatmap["start_ms"]) // 20
    for begin, end in ((2, 3 + settled // 100), (settled // 4, settled // 2), (7, 8), (0, settled)):
        wait_for(lambda begin=begin, end=end: is_region(started, heatmap["start_ms"] + 20 * begin, end - begin), 60, f"the slots {begin} to {end}")
    assert sum(slots_of(heatmap)) >= 200 * 10 ** 9 // 99 - 200  # at least a hundred samples of each program


def heatmap_of(started):
    return json.loads(started.text("/api/v1/heatmap?seconds=120"))


def slots_of(heatmap):
    return [weight for second in heatmap["seconds"] for weight in second["weights_ns"]]


def is_region(started, from_ms, slots):
    """Whether these heatmap slots equal the profile of the same interval; eventually true, when the newest samples have arrived."""
    profile = json.loads(started.text(f"/api/v1/profile?from={from_ms}&to={from_ms + 20 * slots}"))
    heatmap = heatmap_of(started)
    begin = (from_ms - heatmap["start_ms"]) // 20
    return begin >= 0 and profile["sonde"]["weight_ns"] == sum(slots_of(heatmap)[begin:begin + slots])


@pytest.mark.parametrize("windows", [["60s..30s"], ["60s..30s"] * 3, ["60s..30s", "30s..30s"], ["60s..30s", "10s..20s"], ["60s", "30s..0s"], ["60s..30s", "..5s"],
                                     ["60s..30s", "5s.."], ["2h..1h", "5s..1s"], ["-5s..1s", "5s..1s"], ["1x..0s", "5s..1s"], ["", "5s..1s"]])
def test_invalid_windows_are_refused(sonde, windows):
    done = diff(sonde, *(word for window in windows for word in ("--window", window)))
    assert done.returncode == 2 and "--window" in done.stderr and not done.stdout


def test_windows_without_an_agent_are_an_error(sonde, tmp_path):
    windows = ["--window", "60s..30s", "--window", "30s..0s"]
    done = diff(sonde, *windows, "--agent", "127.0.0.1:1")
    assert done.returncode == 1 and "no agent at 127.0.0.1:1" in done.stderr
    for wrong in (["a", "b", *windows], ["a", "b", "-p", 1], ["a", "b", "--agent", "127.0.0.1:1"], [*windows, "-c", "x&pid=1"]):
        assert diff(sonde, *wrong).returncode == 2


def test_invalid_arguments_are_refused(sonde, tmp_path, generated_profiles):
    whole = generated_profiles[0]
    cut, text = tmp_path / "cut.pb.gz", tmp_path / "text"
    cut.write_bytes(whole.read_bytes()[:-30])
    text.write_text("not a profile\n")
    for wrong, said in ((cut, "is not a pprof profile"), (text, "is not a pprof profile"), (tmp_path / "none", "No such file"), (tmp_path, "directory")):
        for paths in ((wrong, whole), (whole, wrong)):
            done = diff(sonde, *paths)
            assert done.returncode == 1 and said in done.stderr and str(wrong) in done.stderr and not done.stdout, (wrong, done)
    done = diff(sonde, whole, whole, "--value", "alloc_space")
    assert done.returncode == 1 and "it has values of the types samples, cpu" in done.stderr
    assert diff(sonde, whole).returncode == 2 and diff(sonde, whole, whole, whole).returncode == 2
    empty = write_pprof(tmp_path / "empty.pb.gz", [("samples", "count"), ("cpu", "nanoseconds")], [])
    for name, paths in (("before", (empty, whole)), ("after", (whole, empty)), ("before", (empty, empty))):
        for form in ([], ["--folded"], ["-o", tmp_path / "none.html"]):
            done = diff(sonde, *paths, *form)
            assert done.returncode == 1 and f"{name} has no samples: nothing can be compared" in done.stderr and not done.stdout, (paths, done)
    assert not (tmp_path / "none.html").exists()
    with open("/dev/full", "w") as full:
        assert subprocess.run([sonde, "diff", whole, whole], stdout=full, stderr=subprocess.PIPE, timeout=60).returncode == 1
