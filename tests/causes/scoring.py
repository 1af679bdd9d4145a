"""Compares what `sonde why` reports about a request with the ground truth. Pure: no clock, no process.

A *segment* is one of the report; a request without a path is one segment, `unattributed`. An *item* is ground truth: servers/common.py. Both are
reduced to the request's own interval, which is [start, start + duration] as reported; ground truth outside of it is counted as `outside_ns`.
"""
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from catalogue import ACCUSED_NS, ACCUSING, CAUSES, KINDS

MS = 1e6
UNITS_NS = {"us": 1e3, "ms": 1e6, "s": 1e9}
EDGE_NS = 1_000_000  # components below this are not scored: the cost of two system calls and of the measurement

STEAL_NS = 20_000_000
OF_OTHERS = {"loop_busy", "queue_behind"}  # causes that are another request's work
MAIN_SHARE = 0.25  # of a pair of causes, both have at least this share of the ground truth


@dataclass
class Owned:
    """Time whose owner the ground truth knows: in total, with a claimed owner, and with the right claimed owner."""
    known_ns: int = 0
    claimed_ns: int = 0
    right_ns: int = 0

    def __add__(self, other):
        return Owned(self.known_ns + other.known_ns, self.claimed_ns + other.claimed_ns, self.right_ns + other.right_ns)


@dataclass
class Scored:
    """What one request contributes. `named`: the kind with the most time. `right`: it is acceptable for the largest component of the ground truth, and
    has at least half of that component's time. `error_ns`: {cause of the ground truth: named - truth}."""
    id: int
    named: str
    right: bool
    duration_ns: int
    unattributed_ns: int
    attributed_ns: int  # to the injected cause, by an acceptable kind
    outside_ns: int
    error_ns: dict = field(default_factory=dict)
    decoy: bool = False
    has_path: bool = True
    owned: Owned = field(default_factory=Owned)
    names_function: bool | None = None  # whether the request's sentence names a function that the ground truth knows of a holder; None: it knows none


def accepts(cause, segment, service_pids=()):
    """Whether a segment is right for a cause of the ground truth."""
    kind = segment["kind"]
    if kind in KINDS[cause]:
        return True
    if cause == "quota":
        return kind == "run_queue" and "quota" in segment.get("detail", "")
    if cause == "gc":
        return kind in ("cpu", "lock") and segment.get("collects", False)
    if cause == "downstream":
        return segment.get("pid") in service_pids
    return cause in OF_OTHERS and segment.get("owner") == "other" and kind in ("cpu", "run_queue")


def with_collectors(segments):
    """The segments, with `collects` where the detail or the evidence of the same thread names a garbage collector: a short segment has no CPU sample."""
    def names_it(segment):
        return any("garbage collection" in text for text in (segment.get("detail", ""), *segment.get("notes", ())))
    threads = {segment["tid"] for segment in segments if names_it(segment)}
    return [{**segment, "collects": segment["tid"] in threads} for segment in segments]


def with_retransmissions(segments):
    """The segments, each that says "2 retransmissions, 204 ms of it" as two: `retransmission` for that time, and the rest."""
    found = []
    for segment in segments:
        said = re.search(r"\d+ retransmissions?, ([\d.]+) (us|ms|s) of it", segment.get("detail", ""))
        lost = min(segment["ns"], int(float(said[1]) * UNITS_NS[said[2]])) if said else 0
        if lost:
            found.append({**segment, "kind": "retransmission", "ns": lost})
        if segment["ns"] > lost:
            found.append({**segment, "start_ns": segment["start_ns"] + lost, "ns": segment["ns"] - lost})
    return found


def with_reclaim(segments):
    """The segments. A segment where the thread reclaimed memory has the kind `reclaim`."""
    return [{**segment, "kind": "reclaim"} if segment["kind"] == "other" and "in direct reclaim of " in segment.get("detail", "") else segment for segment in segments]


def with_interrupts(segments):
    """The segments; that an interrupt kept the CPU is a kind of its own."""
    return [{**s, "kind": "interrupts"} if s["kind"] == "other" and re.search(r"CPU \d+ ran ", s.get("detail", "")) else s for s in segments]


def clip(item, start, end):
    """The item within [start, end], with `ns`; None when nothing of it is. A partial item (`ns`) keeps the share of its interval."""
    t0, t1 = max(item["t0"], start), min(item["t1"], end)
    if t1 <= t0:
        return None
    whole = item["t1"] - item["t0"]
    return {**item, "t0": t0, "t1": t1, "ns": min(t1 - t0, item.get("ns", whole) * (t1 - t0) // whole)}


def item_ns(item):
    return item.get("ns", item["t1"] - item["t0"])


def with_waits_for_thread(requests, log, cause):
    """Adds `cause` to the ground truth of requests that one thread of several serves, an event loop or a worker: where another request occupied that thread
    between sending and reply, and no item of the request's own explains the time. `requests`: {id: (sent_ns, done_ns)}; `log`: {id: line}. Returns
    {id: truth}."""
    occupied = sorted((line["t0"], line["t1"], line["tid"], number) for number, line in log.items() if line.get("occupied_thread"))
    truth = {}
    for number, (sent, done) in requests.items():
        line = log[number]
        own = sorted((i["t0"], i["t1"]) for i in line["truth"])
        waits = []
        for t0, t1, tid, other in occupied:
            if other != number and tid == line["tid"] and t0 < done and t1 > sent:
                waits += [{"cause": cause, "tid": tid, "t0": a, "t1": b} for a, b in without(max(t0, sent), min(t1, done), own)]
        truth[number] = line["truth"] + waits
    return truth


def without(t0, t1, intervals):
    """[t0, t1] less sorted intervals."""
    left = []
    for a, b in intervals:
        if a > t0:
            left.append((t0, min(a, t1)))
        t0 = max(t0, b)
    left.append((t0, t1))
    return [(a, b) for a, b in left if b > a]


def without_steal(error, steal_ns):
    """Ground truth cannot know what the hypervisor took: up to STEAL_NS of it may lie in the component that lacks the most."""
    worst = min(error, key=lambda cause: error[cause], default="")
    if worst and error[worst] < 0:
        error[worst] = min(0, error[worst] + min(steal_ns, STEAL_NS))
    return error


def error_of_segments(truth, segments, start, service_pids):
    """{cause: named - truth} in ns. Only a segment within an item's interval counts for it."""
    error = defaultdict(int)
    for item in truth:
        if item["ns"] < EDGE_NS:
            continue
        named = 0
        for segment in segments:
            t0 = start + segment["start_ns"]
            if accepts(item["cause"], segment, service_pids):
                named += max(0, min(t0 + segment["ns"], item["t1"]) - max(t0, item["t0"]))
        error[item["cause"]] += named - item["ns"]
    return without_steal(dict(error), sum(s["ns"] for s in segments if s["kind"] == "steal"))


def top(segments):
    """(kind with the most time, its segments)"""
    totals = Counter()
    for segment in segments:
        totals[segment["kind"]] += segment["ns"]
    kind = max(totals, key=lambda k: totals[k])
    return kind, [segment for segment in segments if segment["kind"] == kind]


def owner_of_segment(segment, items):
    """(whether an owner is claimed, whether it is right), by the items that a segment coincides with: the segment may be any of them."""
    claimed = right = False
    for item in items:
        if item["cause"] == "lock":
            if "holders" in item and segment["kind"] == "lock":  # who held it, whatever request that was for
                claimed, right = claimed or segment["tid"] != 0, right or segment["tid"] in item["holders"]
            continue
        owner = "other" if item["cause"] in OF_OTHERS else "this"
        if segment["kind"] not in ("lock", "unattributed") or owner == "other":
            elsewhere = owner == "this" and "only" in item and segment["tid"] not in item["only"]
            claimed, right = claimed or segment["owner"] in ("this", "other"), right or (segment["owner"] == owner and not elsewhere)
    return claimed, right


def owners(truth, segments, start):
    """Compares owners of segments with the ground truth, where both are long enough."""
    owned = Owned()
    for segment in segments:
        t0, t1 = start + segment["start_ns"], start + segment["start_ns"] + segment["ns"]
        items = [i for i in truth if i["ns"] >= EDGE_NS and 2 * (min(i["t1"], t1) - max(i["t0"], t0)) >= t1 - t0]
        if segment["ns"] < EDGE_NS or not items or all(i["cause"] == "lock" and "holders" not in i for i in items):
            continue
        claimed, right = owner_of_segment(segment, items)
        owned += Owned(segment["ns"], segment["ns"] * claimed, segment["ns"] * (claimed and right))
    return owned


def names_function(request, truth):
    functions = {name for item in truth for name in item.get("functions", ())}
    return any(f" {name}" in request.get("cause", "") for name in functions) if functions else None


def is_named(cause, ns, segments, service_pids):
    """Segments that are right for a component of the ground truth have at least half of its time."""
    return 2 * sum(s["ns"] for s in segments if accepts(cause, s, service_pids)) >= ns


def score(number, name, request, start, truth, service_pids=()):
    """Scores one request. `start`: its start on the clock of the ground truth; `truth`: its items; `name`: the injected cause, of CAUSES."""
    cause, end = CAUSES[name], start + request["duration_ns"]
    segments = request.get("segments") or [{"kind": "unattributed", "start_ns": 0, "ns": request["duration_ns"], "owner": "unknown", "tid": 0}]
    segments = with_interrupts(with_reclaim(with_retransmissions(with_collectors(segments))))
    within = [clipped for clipped in (clip(item, start, end) for item in truth) if clipped]
    kind, largest = top(segments)
    totals = Counter()
    for item in truth:
        totals[item["cause"]] += item_ns(item)
    expected = totals.most_common(1)[0][0] if totals and totals.most_common(1)[0][1] >= EDGE_NS else ""
    if expected and cause.pair:
        right = all(is_named(one, ns, segments, service_pids) for one, ns in totals.items() if ns >= MAIN_SHARE * totals.total())
    elif expected:
        accepted = sum(s["ns"] for s in largest if accepts(expected, s, service_pids))
        right = 2 * accepted >= max(sum(s["ns"] for s in largest), totals[expected])
    else:
        right = kind not in ACCUSING or sum(s["ns"] for s in largest) <= ACCUSED_NS
    by_kind = Counter()
    for segment in segments:
        by_kind[segment["kind"]] += segment["ns"]
    return Scored(
        number, kind, right, request["duration_ns"], by_kind["unattributed"],
        sum(s["ns"] for s in segments if cause.truth and accepts(cause.truth, s, service_pids)),
        sum(map(item_ns, truth)) - sum(item["ns"] for item in within),
        error_of_segments(within, segments, start, service_pids),
        any(by_kind[k] > ACCUSED_NS for k in cause.decoy), bool(request.get("segments")),
        owners(within, segments, start), names_function(request, within))


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def true_share(truth, sent_ns, done_ns):
    """The share of a request's latency that ground truth explains: a check of the ground truth itself."""
    return sum(map(item_ns, truth)) / (done_ns - sent_ns)


def counterfactual(attributed_ns, attributed_baseline_ns, latency_ns, latency_baseline_ns):
    """Attributed milliseconds for each millisecond that the injection cost; 1 is right. None when the injection cost less than EDGE_NS."""
    cost = latency_ns - latency_baseline_ns
    return (attributed_ns - attributed_baseline_ns) / cost if cost >= EDGE_NS else None


def summarize(scored):
    """Figures of a list of Scored: shares of 1, milliseconds."""
    if not scored:
        return {"requests": 0}
    owned, functions = sum((s.owned for s in scored), Owned()), [s.names_function for s in scored if s.names_function is not None]
    return {
        "requests": len(scored),
        "right": mean(s.right for s in scored),
        "unattributed": sum(s.unattributed_ns for s in scored) / sum(s.duration_ns for s in scored),
        "error_ms": mean(sum(map(abs, s.error_ns.values())) for s in scored) / MS,
        "outside_ms": mean(s.outside_ns for s in scored) / MS,
        "decoys": sum(s.decoy for s in scored),
        "no_path": sum(not s.has_path for s in scored),
        "owner_right": owned.right_ns / owned.claimed_ns if owned.claimed_ns else None,
        "owner_claimed": owned.claimed_ns / owned.known_ns if owned.known_ns else None,
        "function": mean(functions) if functions else None,
    }


COUNTERS = {  # of the agent's /metrics: regular expressions
    "served": "(http_server_request|rpc_server_call)_duration_seconds_count",
    "recorded": "sonde_requests_detailed_total",
    "dropped": "sonde_self_requests_dropped_total",
    "over_budget": 'sonde_self_request_paths_total\\{outcome="over_budget"\\}',
    "no_records": 'sonde_self_request_paths_total\\{outcome="no_records"\\}',
}


def counts_of(metrics):
    """The agent's counts of requests, by name of COUNTERS, from the text of /metrics: the sums over all labels that the name leaves open."""
    samples = [line.rpartition(" ") for line in metrics.splitlines() if line and not line.startswith("#")]
    return Counter({name: sum(float(value) for series, _, value in samples if re.match(wanted + r"(\{|$)", series))
                    for name, wanted in COUNTERS.items()})


def reasons(counts):
    """Why requests have no record or no path, in words. `counts`: of COUNTERS, of all requests of the node meanwhile."""
    return (f"of {counts['served']:.0f} requests to all programs, {counts['served'] - counts['recorded']:.0f} were not recorded (a process has 32 records a "
            f"second), {counts['dropped']:.0f} not kept (budget.memory), {counts['over_budget']:.0f} had no path for lack of CPU time, "
            f"{counts['no_records']:.0f} for lack of records of the scheduler")
