"""Names that a foreign program chose, in every output: no control character of theirs reaches a terminal, and no markup a browser."""
import json
import subprocess
import sys
import unicodedata

import pytest

from harness.agents import everything_enabled
from harness.paths import TOP
from harness.processes import wait_for

KEPT = "[31m"  # the harmless rest of the names: each output must contain one
PROGRAM = TOP / "tests/e2e/hostile_program.py"
COMMANDS = [["requests"], ["requests", "--abnormal"], ["requests", "--abnormal", "--each"], ["why"]]
PATHS = ["/api/v1/requests", "/api/v1/requests?which=all", "/api/v1/routes", "/api/v1/profile", "/api/v1/profile?format=folded", "/api/v1/profile?format=html",
         "/api/v1/hotspots", "/metrics"]


def is_control(c):
    return unicodedata.category(c) in ("Cc", "Zl", "Zp") or unicodedata.bidirectional(c) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI") or c in "\u061c\u200e\u200f"


def assert_harmless(text, what):
    found = [i for i, c in enumerate(text) if c not in "\n\t" and is_control(c)]
    assert not found, f"{what}: {text[max(found[0] - 60, 0):found[0] + 60]!r}"


def outputs(arguments, **options):
    done = subprocess.run([str(a) for a in arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=120, **options)
    return [text.decode(errors="surrogateescape") for text in (done.stdout, done.stderr)]


def say(arguments, **options):
    return "".join(outputs(arguments, **options))


def named(text):
    return text if KEPT in text else None


@pytest.fixture
def hostile(run, tmp_path):
    return run(sys.executable, PROGRAM, tmp_path, name="hostile")


@pytest.mark.alone  # other tests compare names in several outputs, and crowd out its requests
def test_names_of_a_hostile_program_are_harmless_in_every_output(agent, sonde, hostile, tmp_path):
    started = agent(*everything_enabled(sonde))
    address = ["--agent", f"127.0.0.1:{started.port}"]
    wait_for(lambda: KEPT in started.text("/api/v1/requests?which=all"), 60, "a request")
    wait_for(lambda: "spin" in started.text("/api/v1/profile?format=folded"), 60, "a sample")
    for command in COMMANDS:
        text = wait_for(lambda: named(say([sonde, *command, *address])), 60, "a name")  # noqa: B023
        assert_harmless(text, command)
        json_text, notes = outputs([sonde, *command, "--json", *address])
        assert KEPT in json_text and json.loads(json_text)
        assert_harmless(json_text + notes, [*command, "--json"])
    for path in PATHS:
        text = started.text(path)
        assert KEPT in text, path
        assert_harmless(text, path)
        assert "<i>" not in text or path in ("/metrics", "/api/v1/profile?format=folded"), path
    html = tmp_path / "why.html"
    say([sonde, "why", "--html", html, *address])
    assert KEPT in html.read_text() and "<i>" not in html.read_text()
    assert_harmless(html.read_text(), "why --html")
    assert_harmless(started.running.out + started.running.error, "the agent's own messages")


@pytest.mark.thorough
def test_names_of_a_hostile_program_are_harmless_in_what_commands_record(sonde, root, hostile, tmp_path):
    for command in (["io", "--by", "process,file"], ["io", "--by", "process,file", "--json"], ["probes", "-p", hostile.pid], ["doctor"]):
        text = say([sonde, *command])
        assert KEPT in text or command[0] not in ("io",), (command, text)
        assert_harmless(text, command)
    for ending in ("folded", "html", "json"):
        path = tmp_path / f"profile.{ending}"
        assert_harmless(say([sonde, "record", "-p", hostile.pid, "-d", "1", "-o", path]), "record")
        assert KEPT in path.read_text()
        assert_harmless(path.read_text(), ending)
