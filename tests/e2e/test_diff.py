"""`sonde diff` beside `go tool pprof`, on profiles of ours and of Go's own profiler."""
import gzip
import json
import os
import re
import subprocess

import pytest
from conftest import SUBJECTS, go_pprof, need_command, subject_path

HZ = 499
OWN_PROFILER = """package main

import (
	"os"
	"runtime/pprof"
	"strings"
	"time"
)

var sum int

//go:noinline
func loud(n int) { for i := 0; i < n; i++ { sum += i * i } }

//go:noinline
func quiet(n int) { for i := 0; i < n; i++ { sum -= i * i } }

func main() {
	file, _ := os.Create(os.Args[1])
	pprof.StartCPUProfile(file)
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
		loud(1000 * strings.Count(os.Args[2], "l"))
		quiet(1000 * strings.Count(os.Args[2], "q"))
	}
	pprof.StopCPUProfile()
	file.Close()
}
"""


@pytest.fixture
def recorded(record, tmp_path):
    """recorded(subject, arguments...) is the path of a profile of it."""
    count = 0

    def start(subject, *arguments):
        nonlocal count
        count += 1
        record("-F", HZ, "--", subject_path(subject), *arguments)
        return tmp_path / f"record-{count}.pb.gz"
    return start


def diff(sonde, *arguments):
    return subprocess.run([sonde, "diff", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


def rows_of(said):
    """Shares in percent (before, after) by function."""
    found = re.findall(r"^ *([+-][\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)  (.*)$", said, re.M)
    assert all(abs(float(after) - float(before) - float(change)) < 0.011 for change, before, after, _, _ in found)
    return {name: (float(before), float(after)) for _, before, after, _, name in found}


def shares_of(path, column):
    """What go tool pprof says of each function; column 1: by itself, 4: with all that it called."""
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
            assert abs(shares[side] - theirs[side].get(name, 0)) <= 0.02, (name, shares, theirs[side].get(name))  # either is rounded
            compared += shares[side] > 1
    assert compared >= 2, said.stdout
    for side in range(2):
        missing = {name for name, share in theirs[side].items() if share > 0.05} - set(ours)
        assert all(abs(theirs[0].get(name, 0) - theirs[1].get(name, 0)) <= 0.02 for name in missing), missing
    return ours


@pytest.mark.parametrize("total", [False, True], ids=["self", "total"])
def test_shares_are_those_of_go_tool_pprof(sonde, recorded, total):
    before = recorded("deep", 20, 1)
    after = recorded("signals", 1)
    ours = assert_same_shares(sonde, before, after, total)
    assert any(name.startswith("deep_") for name in ours)


def test_profiles_of_another_profiler(sonde, tmp_path):
    """Go's own: what became more stands first, what became less last; a profile against itself has no change."""
    source, program = tmp_path / "own.go", tmp_path / "own"
    source.write_text(OWN_PROFILER)
    subprocess.run([need_command("go"), "build", "-o", program, source], check=True, timeout=500,
                   env=dict(os.environ, GO111MODULE="off", GOCACHE=str(SUBJECTS / ".go")))
    before, after = tmp_path / "before", tmp_path / "after"
    subprocess.run([program, before, "lqqq"], check=True, timeout=60)
    subprocess.run([program, after, "lllq"], check=True, timeout=60)
    assert_same_shares(sonde, before, after, True)
    said = diff(sonde, before, after, "-t")
    names = list(rows_of(said.stdout))
    assert names[0] == "main.loud" and names[-1] == "main.quiet", said.stdout
    for path in (before, after):
        assert not rows_of(diff(sonde, path, path, "--all").stdout)
    plain = tmp_path / "plain"
    plain.write_bytes(gzip.decompress(before.read_bytes()))
    assert diff(sonde, plain, after, "-t").stdout == said.stdout
    assert rows_of(diff(sonde, before, after, "--value", "samples").stdout)


def test_folded_for_others(sonde, recorded):
    """Both columns have the same sum, whatever the recordings' length."""
    lines = diff(sonde, recorded("deep", 5, 1), recorded("deep", 5, 2), "--folded").stdout.splitlines()
    sums = [sum(int(line.rsplit(" ", 2)[side]) for line in lines) for side in (1, 2)]
    assert sums[0] > 0 and abs(sums[0] - sums[1]) <= len(lines)
    assert any(line.startswith("deep;") and ";deep_leaf " in line for line in lines)


def test_flame_graph(sonde, recorded, tmp_path):
    """The page's figures: both sides have the same whole, and shares that are those of the text. What is seen of it, web/tests/page.test.mjs looks at."""
    before, after, page = recorded("deep", 5, 1), recorded("signals", 1), tmp_path / "diff.html"
    done = diff(sonde, before, after, "-o", page)
    assert done.returncode == 0 and not done.stdout, done.stderr
    told = json.loads(re.search(r'<script id="profile"[^>]*>(.*?)</script>', page.read_text(), re.S)[1])
    names = [frame["name"] for frame in told["shared"]["frames"]]
    shares, sums = {}, [0, 0]
    for process in told["profiles"]:
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


def test_refusals(sonde, tmp_path, recorded):
    whole = recorded("deep", 5, 1)
    cut, text = tmp_path / "cut.pb.gz", tmp_path / "text"
    cut.write_bytes(whole.read_bytes()[:-30])
    text.write_text("not a profile\n")
    for wrong, said in ((cut, "is no profile"), (text, "is no profile"), (tmp_path / "none", "No such file"), (tmp_path, "directory")):
        for paths in ((wrong, whole), (whole, wrong)):
            done = diff(sonde, *paths)
            assert done.returncode == 1 and said in done.stderr and str(wrong) in done.stderr and not done.stdout, (wrong, done)
    done = diff(sonde, whole, whole, "--value", "alloc_space")
    assert done.returncode == 1 and "it has values of the types samples, cpu" in done.stderr
    assert diff(sonde, whole).returncode == 2 and diff(sonde, whole, whole, whole).returncode == 2
    with open("/dev/full", "w") as full:
        assert subprocess.run([sonde, "diff", whole, whole], stdout=full, stderr=subprocess.PIPE, timeout=60).returncode == 1
