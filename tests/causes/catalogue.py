"""The evaluated servers and the injected causes. A new server is a file in servers/ and a line in SERVERS; a new cause is a line in CAUSES, and a route
in the servers that support it."""
from dataclasses import dataclass

PYTHON = "/usr/bin/python3"
LOOP_MS, WORKERS = 100, 4


@dataclass(frozen=True)
class Cause:
    """`truth`: the cause whose ground truth the injection adds. `ms` and `baseline_ms`: what the route does with and without the injection. `around`:
    what injections.py sets up meanwhile. `before` and `after`: requests (route, ms) that are sent shortly before or after the scored one.
    `at_once`: how many scored requests are sent concurrently. `decoy`: kinds that no request may be attributed to, because they are off its path."""
    truth: str
    route: str
    ms: int = 0
    baseline_ms: int = 0
    around: str = ""
    before: tuple = ()
    after: tuple = ()
    at_once: int = 1
    decoy: tuple = ()


BLOCKER, FILLERS = (("cpu", LOOP_MS),), (("sleep", LOOP_MS),) * WORKERS
CAUSES = {
    "clean": Cause("", "clean"),
    "cpu": Cause("cpu", "cpu", 100),
    "sleep": Cause("sleep", "sleep", 100, at_once=4),
    "lock": Cause("lock", "lock", 100, at_once=2),
    "lock_spin": Cause("lock", "lock_spin", 100),
    "gil_holder": Cause("lock", "gil", 100),
    "disk": Cause("disk", "disk", 100),
    "faults": Cause("disk", "faults", 100),
    "downstream": Cause("downstream", "downstream", 100, at_once=4),
    "quota": Cause("quota", "quota", 30, 30, around="quota"),
    "hog": Cause("run_queue", "cpu", 30, 30, around="hog"),
    "pool_cpu": Cause("cpu", "pool_cpu", 100),
    "blocked_loop": Cause("loop_busy", "sleep", 20, 20, after=BLOCKER),
    "blocked_read": Cause("loop_busy", "clean", before=BLOCKER),
    "slow_worker": Cause("queue_behind", "clean", before=FILLERS),
    "decoy_hog": Cause("sleep", "sleep", 50, around="hog_elsewhere", decoy=("run_queue",)),
    "decoy_disk": Cause("sleep", "sleep", 50, around="disk_elsewhere", decoy=("disk",)),
    "decoy_lock": Cause("sleep", "sleep", 50, around="lock_elsewhere", decoy=("lock",)),
}
ANY = ("clean", "cpu", "sleep", "disk", "downstream", "quota", "hog", "decoy_hog", "decoy_disk")
IN_PYTHON = (*ANY, "lock", "lock_spin", "gil_holder", "faults")


@dataclass(frozen=True)
class Server:
    """`command`: interpreter (or "go", which builds it) and file; PORT LOG FOLDER follow. `packages`: needs the environment of PACKAGES, whose
    interpreter then replaces PYTHON. `loop`: one thread serves all requests."""
    command: tuple
    causes: tuple
    packages: bool = False
    loop: bool = False


PACKAGES = ["uvicorn==0.54.0", "gunicorn==23.0.0"]
SERVERS = {
    "threads": Server((PYTHON, "threads.py"), (*IN_PYTHON, "decoy_lock")),
    "prefork": Server((PYTHON, "prefork.py"), IN_PYTHON, packages=True),
    "pool": Server((PYTHON, "pool.py"), (*IN_PYTHON, "slow_worker", "decoy_lock")),
    "asyncio": Server((PYTHON, "asyncio_server.py"), (*IN_PYTHON, "blocked_loop", "blocked_read", "decoy_lock"), packages=True, loop=True),
    "asyncio_pool": Server((PYTHON, "asyncio_server.py"), (*IN_PYTHON, "slow_worker", "decoy_lock"), packages=True, loop=True),
    "go": Server(("go", "go_server.go"), (*ANY, "lock")),
    "node": Server(("node", "node_server.js"), (*ANY, "pool_cpu", "blocked_loop", "blocked_read"), loop=True),
}
ARGUMENTS = {"asyncio_pool": ("pool",)}  # after FOLDER

# A cause of the ground truth, and the kinds of `sonde why` that are right for it.
KINDS = {
    "cpu": {"cpu"},
    "run_queue": {"run_queue", "quota"},
    "quota": {"quota"},  # and run_queue whose detail names the quota
    "lock": {"lock"},
    "sleep": {"sleep", "timer"},
    "disk": {"disk"},
    "downstream": {"downstream"},  # and segments in the called process
    "loop_busy": {"loop_busy", "other_requests", "unread"},  # and segments of the loop that belong to another request
    "queue_behind": {"queue_behind", "lock"},
}
# Kinds that accuse something other than the request's own work: none may have more than ACCUSED_NS on a clean request.
ACCUSING = {"run_queue", "quota", "lock", "sleep", "timer", "disk", "downstream", "loop_busy", "other_requests", "queue_behind", "unread"}
ACCUSED_NS = 5_000_000
