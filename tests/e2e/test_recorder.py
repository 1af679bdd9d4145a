"""The flight recorder of an agent: records are written while it is enabled, and its memory is counted once."""
import json

from harness.processes import wait_for


def test_recorder_is_enabled_by_default(agent):
    started = agent("--set", "budget.one_cpu=1000%")
    wait_for(lambda: started.metric("sonde_recorder_records_total", ring="scheduler") > 100, what="records of the scheduler")
    wait_for(lambda: started.metric("sonde_recorder_records_total", ring="objects") > 0, what="records of sockets")
    assert started.metric("sonde_recorder_history_seconds") > 0
    probes = json.loads(started.get("/api/v1/status")[2])["probes"]
    assert [p["attached"] for p in probes if p["probe"] == "flight recorder"] == [True]


def test_disabled_recorder_takes_no_memory(agent):
    started = agent("--set", "recorder.enabled=false")
    text = started.text("/metrics")
    assert "sonde_recorder" not in text and 'program="recorder_switch"' not in text
