"""`sonde events`: the events of a node in one list, with advice for each kind."""
import json
import subprocess

import pytest
from synthetic_agent import synthetic_agent  # noqa: F401 (a fixture)


def events(sonde, *arguments):
    done = subprocess.run([str(sonde), "events", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    return done.stdout


@pytest.mark.sanitized
def test_list_with_advice_once_for_each_kind(sonde, synthetic_agent):
    address = synthetic_agent("hostile")
    heading, *rows = events(sonde, "--agent", address).splitlines()
    assert heading.split() == ["TIME", "KIND", "EVENT"]
    assert [row.split(maxsplit=1)[1] for row in rows[:3]] == [f"{name:26}  {text}" for name, text in [
        ("drops.listen_overflow", "port 8080 of shop refused 37 connections"), ("io.slow", "?[31mfsync took 2.00 s"), ("io.slow", "fsync took 1.00 s")]]
    assert rows[3:5] == ["", "What to do:"]
    assert [line.split(":")[0] for line in rows[5:]] == ["  drops.listen_overflow", "  io.slow"]
    assert len(events(sonde, "--kind", "io", "--agent", address).splitlines()) == 1 + 2 + 2 + 1
    assert events(sonde, "--kind", "i", "--agent", address).startswith("None of the 3 events recorded in the last 3600 s matches.\n")


@pytest.mark.sanitized
def test_json_has_what_the_api_has_and_advice(sonde, synthetic_agent):
    answer = json.loads(events(sonde, "--json", "--kind", "drops.listen_overflow", "--agent", synthetic_agent("hostile")))
    event, = answer["events"]
    assert event["attributes"] == {"server.port": "8080"} and event["duration_ns"] == 5_000_000_000 and "backlog" in event["advice"], event


@pytest.mark.sanitized
def test_empty_list_says_why(sonde, synthetic_agent):
    assert events(sonde, "--agent", synthetic_agent("many")).startswith("No event")
