"""The command line as people meet it: help, wrong flags, configuration errors, and man pages that say what --help says."""
import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
VERBS = ["up", "agent", "record", "why", "doctor"]


@pytest.fixture
def ask(sonde):
    """ask(arguments...) runs sonde to its end."""
    return lambda *arguments: subprocess.run([str(sonde), *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                                             text=True, timeout=60)


def man_page(verb):
    name = "sonde-up" if verb == "agent" else f"sonde-{verb}"
    return (TOP / "docs" / "man" / f"{name}.1").read_text().replace("\\-", "-")


@pytest.mark.parametrize("verb", VERBS)
def test_help_and_manual_agree(ask, verb):
    done = ask(verb, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: sonde {verb} ")
    options = set(re.findall(r"--([a-z-]+)", done.stdout.split("Options:")[1])) - {"help"}
    assert options or verb == "doctor"
    page = man_page(verb)
    for option in options:
        assert f"--{option}" in page, f"--{option} is missing in the manual of {verb}"
    for option in set(re.findall(r"^\.(?:BR|BI|B) .*--([a-z-]+)", page, re.M)):
        assert option in options or verb == "agent" or option == "config", f"the manual of {verb} knows --{option}, the program does not"


def test_no_verb_and_wrong_verb(ask):
    done = ask()
    assert done.returncode == 2 and "record" in done.stderr
    done = ask("recrod")
    assert done.returncode == 2 and "recrod" in done.stderr
    assert ask("--version").stdout.startswith("sonde ")


@pytest.mark.parametrize("arguments, expected", [
    (["record", "--rate", "fast"], "'fast' is not a whole number from 1 to"),
    (["record", "-F"], "needs a value"),
    (["record", "-F", "0"], "whole number"),
    (["record", "-d", "10 parsecs"], "such as 10s or 5m"),
    (["why", "--last", "1h"], "1.00 s to 300 s"),
    (["record", "-o", "profile.exe", "-d", "1"], ".pb.gz"),
    (["record", "-p", "4194304"], "no process 4194304"),
    (["record", "-p", "me"], "not a process number"),
    (["record", "-a", "-p", "1"], "-a is the whole node"),
    (["record", "-c", "feedfacefeedface", "-d", "1"], "no container"),
    (["record", "--replay", "/nowhere", "-o", "-"], "/nowhere"),
    (["why", "--slowest", "0"], "whole number from 1"),
    (["why", "--agent", "127.0.0.1:1"], "no agent at 127.0.0.1:1"),
    (["up", "--set", "budget.cpu=lots"], "budget.cpu"),
    (["up", "--set", "bugdet.cpu=1%"], "unknown key"),
    (["up", "--set", "page.listen=nowhere", "--print-config", "extra"], "extra"),
    (["up", "--frobnicate"], "unknown option --frobnicate"),
    (["doctor", "--json=yes"], "takes no value"),
])
def test_wrongly_asked(ask, arguments, expected):
    done = ask(*arguments)
    assert done.returncode in (1, 2)
    assert expected in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) <= 4


def test_configuration_file_errors(ask, tmp_path):
    path = tmp_path / "sonde.yaml"
    path.write_text("profile:\n  rate: 19\n  speed: 3\n")
    done = ask("up", "-c", path)
    assert done.returncode == 2
    assert f"{path}:3: unknown key 'profile.speed'" in done.stderr and "profile.rate" in done.stderr
    path.write_text("budget:\n  memory: 64 MB/s\n")
    done = ask("up", "-c", path)
    assert done.returncode == 2 and f"{path}:2: budget.memory: '64 MB/s' is not allowed" in done.stderr
    done = ask("up", "-c", tmp_path / "none.yaml")
    assert done.returncode == 2 and "none.yaml" in done.stderr


def test_printed_configuration_can_be_read_back(ask, tmp_path):
    first = ask("up", "--print-config", "--set", "profile.rate=49", "--set", "budget.cpu=0.5%")
    assert first.returncode == 0 and "rate: 49" in first.stdout
    path = tmp_path / "sonde.yaml"
    path.write_text(first.stdout)
    assert ask("up", "-c", path, "--print-config").stdout == first.stdout


def test_agent_has_no_page(agent):
    status, _, body = agent(verb="agent").get("/")
    assert status == 404 and b"/metrics" in body
