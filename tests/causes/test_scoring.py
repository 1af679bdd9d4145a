"""The scoring code on synthetic requests: right answers, wrong answers, and the size of the error."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import scoring  # noqa: E402
from catalogue import CAUSES, KINDS, SERVERS  # noqa: E402

MS, START = 1_000_000, 5_000_000_000


def request(*pieces):
    """A report whose segments are (kind, ms, detail or fields), one after another."""
    segments, at = [], 0
    for kind, ms, *more in pieces:
        extra = {"detail": more[0]} if more and isinstance(more[0], str) else more[0] if more else {}
        segments.append({"kind": kind, "ns": ms * MS, "start_ns": at, "detail": "", "owner": "this", "tid": 7, **extra})
        at += ms * MS
    return {"duration_ns": at, "segments": segments}


def item(cause, at_ms, ms, **fields):
    return {"cause": cause, "tid": 7, "t0": START + at_ms * MS, "t1": START + (at_ms + ms) * MS, **fields}


def score(name, report, *truth, **options):
    return scoring.score(1, name, report, START, list(truth), **options)


def test_every_injection_has_acceptable_kinds_and_every_server_known_causes():
    assert {cause.truth for cause in CAUSES.values()} - {""} <= set(KINDS)
    assert {name for server in SERVERS.values() for name in server.causes} <= set(CAUSES)


def test_the_right_kind_is_right_and_its_missing_time_is_the_error():
    scored = score("sleep", request(("sleep", 90), ("cpu", 12)), item("sleep", 0, 100))
    assert (scored.named, scored.right, scored.attributed_ns, scored.error_ns) == ("sleep", True, 90 * MS, {"sleep": -10 * MS})


def test_a_wrong_kind_is_wrong_and_all_its_time_is_missing():
    scored = score("sleep", request(("unattributed", 100), ("cpu", 2)), item("sleep", 1, 100))
    assert (scored.named, scored.right, scored.unattributed_ns, scored.error_ns) == ("unattributed", False, 100 * MS, {"sleep": -100 * MS})


def test_the_right_kind_with_too_little_time_is_wrong():
    assert score("sleep", request(("sleep", 50), ("cpu", 1)), item("sleep", 0, 100)).right
    assert not score("sleep", request(("sleep", 49), ("cpu", 1)), item("sleep", 0, 100)).right


def test_a_request_without_a_path_is_unattributed():
    scored = score("sleep", {"duration_ns": 100 * MS, "segments": []}, item("sleep", 0, 100))
    assert (scored.named, scored.right, scored.unattributed_ns, scored.owned.claimed_ns) == ("unattributed", False, 100 * MS, 0)
    assert scoring.summarize([scored, score("sleep", request(("sleep", 100)), item("sleep", 0, 100))])["no_path"] == 1


def test_the_largest_component_decides_and_not_the_injection():
    truth = item("cpu", 0, 100, ns=30 * MS), item("run_queue", 0, 100, ns=70 * MS)
    assert score("cpu", request(("run_queue", 70), ("cpu", 30)), *truth).right
    assert not score("cpu", request(("run_queue", 30), ("cpu", 70)), *truth).right


def test_a_quota_is_right_as_run_queue_only_if_the_detail_names_it():
    assert score("quota", request(("run_queue", 90, "its cgroup's CPU quota was used up"), ("cpu", 10)), item("quota", 0, 90)).right
    assert not score("quota", request(("run_queue", 90), ("cpu", 10)), item("quota", 0, 90)).right


def test_garbage_collection_is_right_only_if_the_evidence_names_it():
    named = {"notes": ["2 of 2 CPU samples in garbage collection: VM_G1CollectFull::doit"]}
    assert score("gc", request(("lock", 90, named), ("cpu", 10)), item("gc", 0, 90)).right
    assert not score("gc", request(("lock", 90), ("cpu", 10)), item("gc", 0, 90)).right


def test_ground_truth_outside_of_the_reported_interval_is_counted_apart():
    scored = score("blocked_read", request(("cpu", 10)), item("loop_busy", -95, 95))
    assert (scored.right, scored.outside_ns, scored.error_ns) == (False, 95 * MS, {})
    half = score("sleep", request(("sleep", 10)), item("sleep", -10, 20))
    assert (half.outside_ns, half.error_ns) == (10 * MS, {"sleep": 0})


def test_stolen_time_is_no_error_up_to_a_bound():
    assert score("disk", request(("disk", 90), ("steal", 10)), item("disk", 0, 100)).error_ns == {"disk": 0}
    assert score("disk", request(("disk", 50), ("steal", 50)), item("disk", 0, 100)).error_ns == {"disk": -30 * MS}


def test_a_clean_request_accuses_nothing_above_the_bound():
    assert score("clean", request(("cpu", 1))).right and score("clean", request(("lock", 4))).right and score("clean", request(("unattributed", 9))).right
    assert not score("clean", request(("lock", 6), ("cpu", 1))).right


def test_a_decoy_is_named_when_its_kind_has_time():
    report = request(("sleep", 50), ("disk", 6))
    assert score("decoy_disk", report, item("sleep", 0, 50)).decoy and not score("decoy_lock", report, item("sleep", 0, 50)).decoy


def test_segments_count_only_where_the_truth_is():
    truth = item("sleep", 0, 50), item("loop_busy", 50, 50)
    right = request(("sleep", 50), ("loop_busy", 50))
    swapped = request(("loop_busy", 50), ("sleep", 50))
    assert score("blocked_loop", right, *truth).error_ns == {"sleep": 0, "loop_busy": 0}
    assert score("blocked_loop", swapped, *truth).error_ns == {"sleep": -50 * MS, "loop_busy": -50 * MS}


def test_segments_of_the_called_process_and_of_other_requests_are_right():
    called = request(("sleep", 100, {"pid": 9}))
    assert score("downstream", called, item("downstream", 0, 100), service_pids={9}).right
    assert not score("downstream", called, item("downstream", 0, 100), service_pids={8}).right
    other = request(("cpu", 80, {"owner": "other"}), ("cpu", 20))
    scored = score("blocked_loop", other, item("loop_busy", 0, 80))
    assert scored.right and scored.error_ns == {"loop_busy": 0}


def test_the_time_of_retransmissions_is_a_segment_of_its_own():
    truth = item("retransmission", 0, 204), item("downstream", 204, 20)
    said = request(("downstream", 224, "10.0.0.3:5432, 1 retransmission, 204 ms of it: another service"), ("cpu", 2))
    scored = score("retransmission", said, *truth)
    assert (scored.named, scored.right, scored.error_ns) == ("retransmission", True, {"retransmission": 0, "downstream": 0})
    silent = score("retransmission", request(("downstream", 224, "10.0.0.3:5432"), ("cpu", 2)), *truth)
    assert (silent.named, silent.right) == ("downstream", False)
    assert score("retransmission", request(("downstream", 224, "recvfrom, 12 retransmissions, 1.5 s of it")), *truth).right, "not more than the segment"


def test_reclaim_is_what_names_it():
    said = request(("other", 60, "in thread 7: in direct reclaim of cgroup /a (memory.max 1.00 GiB)"), ("cpu", 40))
    scored = score("reclaim", said, item("reclaim", 0, 60), item("cpu", 60, 40))
    assert (scored.named, scored.right, scored.error_ns) == ("reclaim", True, {"reclaim": 0, "cpu": 0})
    assert not score("reclaim", request(("other", 60, "a pipe"), ("cpu", 40)), item("reclaim", 0, 60), item("cpu", 60, 40)).right


def test_an_interrupt_is_right_where_the_detail_names_its_cpu():
    truth = item("interrupts", 0, 40), item("cpu", 0, 60, ns=20 * MS)
    said = score("interrupts", request(("other", 40, "CPU 1 ran NET_RX (7.00 ms in 2 steps)"), ("cpu", 20)), *truth)
    assert (said.named, said.right, said.error_ns) == ("interrupts", True, {"interrupts": 0, "cpu": 0})
    assert not score("interrupts", request(("other", 40, "a pipe"), ("cpu", 20)), *truth).right


def test_the_function_of_the_holder_is_named_in_the_sentence():
    truth = item("lock", 0, 100, holders=[9], functions=["Spinner.run()"])
    report = request(("lock", 100, {"tid": 9}))
    named, silent = (score("gil", {**report, "cause": f"100 ms waiting for a lock; the holder ran {ran}"}, truth) for ran in ("Spinner.run() common.py:1", "rerun()"))
    assert (named.names_function, silent.names_function) == (True, False)
    assert scoring.summarize([named, silent, score("sleep", request(("sleep", 9)), item("sleep", 0, 9))])["function"] == 0.5


def test_waits_for_an_event_loop_come_from_the_log():
    def line(t0, t1, occupied, *truth, tid=7):
        return {"tid": tid, "t0": t0, "t1": t1, "occupied_thread": occupied, "truth": list(truth)}
    slept = {"cause": "sleep", "tid": 7, "t0": 10, "t1": 30}
    log = {1: line(10, 100, False, slept), 2: line(20, 90, True), 3: line(200, 300, True), 4: line(92, 95, False), 5: line(40, 99, True, tid=8)}
    waits = scoring.with_waits_for_thread({1: (5, 110)}, log, "loop_busy")[1]
    assert waits == [slept, {"cause": "loop_busy", "tid": 7, "t0": 30, "t1": 90}]
    assert scoring.with_waits_for_thread({2: (15, 95)}, log, "loop_busy")[2] == [], "its own work is no wait"


def test_counterfactual_compares_with_the_cost_of_the_injection():
    assert scoring.counterfactual(90, 0, 101 * MS, 1 * MS) == pytest.approx(90 / (100 * MS))
    assert scoring.counterfactual(100 * MS, 10 * MS, 101 * MS, 11 * MS) == pytest.approx(1)
    assert scoring.counterfactual(0, 0, 1.5 * MS, 1 * MS) is None


def test_partial_items_explain_only_their_part_of_a_latency():
    assert scoring.true_share([item("cpu", 0, 100, ns=30 * MS), item("run_queue", 0, 100, ns=60 * MS)], START, START + 100 * MS) == pytest.approx(0.9)


def test_a_summary_weighs_unattributed_time_by_duration():
    scored = [score("sleep", request(("sleep", 300)), item("sleep", 0, 300)), score("sleep", request(("unattributed", 100)), item("sleep", 0, 100))]
    summary = scoring.summarize(scored)
    assert summary["requests"] == 2 and summary["right"] == 0.5 and summary["unattributed"] == 0.25 and summary["error_ms"] == 50


def test_both_causes_of_a_pair_must_be_named():
    truth = item("lock", 0, 60), item("disk", 60, 72)
    assert score("lock_disk", request(("disk", 70), ("lock", 58)), *truth).right
    assert not score("lock_disk", request(("disk", 70), ("unattributed", 60)), *truth).right


def owned(report, *truth):
    one = score("lock", report, *truth).owned
    return one.known_ns // MS, one.claimed_ns // MS, one.right_ns // MS


def test_the_owner_of_a_lock_is_its_holder():
    held = item("lock", 0, 100, holders=[9])
    assert owned(request(("lock", 100, {"tid": 9, "owner": "unknown"})), held) == (100, 100, 100)
    assert owned(request(("lock", 100, {"tid": 8, "owner": "other"})), held) == (100, 100, 0)
    assert owned(request(("lock", 100, {"tid": 0, "owner": "unknown"})), held) == (100, 0, 0)
    assert owned(request(("lock", 100, {"tid": 9})), item("lock", 0, 100)) == (0, 0, 0), "who held it is not known"


def test_the_owner_of_time_is_this_request_or_another():
    other = {"owner": "other"}
    assert owned(request(("cpu", 50), ("loop_busy", 50, other)), item("cpu", 0, 50), item("loop_busy", 50, 50)) == (100, 100, 100)
    assert owned(request(("cpu", 50, other), ("cpu", 50)), item("cpu", 0, 50), item("loop_busy", 50, 50)) == (100, 100, 0)
    assert owned(request(("cpu", 50, {"owner": "several"}), ("unattributed", 50)), item("cpu", 0, 100)) == (100, 0, 0)


def test_work_in_a_thread_that_has_no_part_in_it_is_not_this_requests():
    own = item("sleep", 0, 100, only=[7])
    assert score("sleep", request(("sleep", 100)), own).owned.right_ns == 100 * MS
    elsewhere = score("sleep", request(("sleep", 100, {"tid": 9})), own).owned
    assert (elsewhere.claimed_ns, elsewhere.right_ns) == (100 * MS, 0)
    assert score("sleep", request(("sleep", 100, {"tid": 9})), item("sleep", 0, 100)).owned.right_ns == 100 * MS


def test_the_agents_counts_are_summed_over_their_labels():
    metrics = """# TYPE http_server_request_duration_seconds histogram
http_server_request_duration_seconds_count{service_name="a"} 7
http_server_request_duration_seconds_count{service_name="b"} 5
http_server_request_duration_seconds_sum{service_name="a"} 70
sonde_requests_detailed_total{service_name="a"} 9
sonde_self_requests_dropped_total 2
sonde_self_request_paths_total{outcome="found"} 6
sonde_self_request_paths_total{outcome="no_records"} 1
"""
    counts = scoring.counts_of(metrics)
    assert counts == {"served": 12, "recorded": 9, "dropped": 2, "over_budget": 0, "no_records": 1}
    words = scoring.reasons(counts)
    assert "of 12 requests" in words and "3 were not recorded" in words and "2 not kept" in words and "1 for lack of records" in words
