"""The evaluated servers and the injected causes. A new server is a file in servers/ and a line in SERVERS; a new cause is a line in CAUSES, and a route
in the servers that support it."""
from dataclasses import dataclass

PYTHON = "/usr/bin/python3"
LOOP_MS, WORKERS = 100, 4


@dataclass(frozen=True)
class Cause:
    """`truth`: the cause whose ground truth the injection adds. `ms` and `baseline_ms`: what the route does with and without the injection. `around`:
    what injections.py sets up meanwhile. `before` and `after`: requests (route, ms) that are sent shortly before or after the scored one.
    `at_once`: how many scored requests are sent concurrently. `decoy`: kinds that no request may be attributed to, because they are off its path. `pair`:
    two causes one after the other; both must be named."""
    truth: str
    route: str
    ms: int = 0
    baseline_ms: int = 0
    around: str = ""
    before: tuple = ()
    after: tuple = ()
    at_once: int = 1
    decoy: tuple = ()
    pair: bool = False


BESIDE = (("to_thread", 150), ("downstream", 100))
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
    "retransmission": Cause("retransmission", "retransmission", 20, 20, around="loss"),
    "reclaim": Cause("reclaim", "reclaim", 60, 60, around="memory"),
    "gc": Cause("gc", "gc", 1),
    "interrupts": Cause("interrupts", "interrupts", 20, 20, around="interrupts"),
    "quota": Cause("quota", "quota", 30, 30, around="quota"),
    "hog": Cause("run_queue", "cpu", 30, 30, around="hog"),
    "pool_cpu": Cause("cpu", "pool_cpu", 100),
    "blocked_loop": Cause("loop_busy", "sleep", 20, 20, after=BLOCKER),
    "blocked_read": Cause("loop_busy", "clean", before=BLOCKER),
    "slow_worker": Cause("queue_behind", "clean", before=FILLERS),
    "lock_disk": Cause("disk", "lock_disk", 60, pair=True),
    "gil_downstream": Cause("downstream", "gil_downstream", 60, pair=True),
    "cpu_downstream": Cause("downstream", "cpu_downstream", 60, pair=True),
    "hog_sleep": Cause("run_queue", "cpu_sleep", 30, 30, around="hog", pair=True),
    "query_sleep": Cause("sleep", "query_sleep", 100, at_once=4),
    "query_lock": Cause("lock", "query_lock", 100),
    "query_cpu": Cause("cpu", "query_cpu", 100),
    "stream": Cause("sleep", "stream", 300, at_once=6, before=BESIDE),
    "stream_sync": Cause("sleep", "stream_sync", 300, at_once=6, before=BESIDE),
    "stream_queue": Cause("sleep", "stream_queue", 300, at_once=6, before=BESIDE),
    "stream_service": Cause("downstream", "stream_service", 300, at_once=6, before=BESIDE),
    "clean_beside": Cause("", "clean", before=(*BESIDE, ("stream", 150), ("stream", 200))),
    "to_thread": Cause("sleep", "to_thread", 150, at_once=3, before=BESIDE),
    "to_threadpool": Cause("sleep", "to_threadpool", 150, at_once=3, before=BESIDE),
    "def_route": Cause("sleep", "def", 150, at_once=3, before=BESIDE),
    "thread_cpu": Cause("cpu", "thread_cpu", 60, before=BESIDE),
    "downstream_beside": Cause("downstream", "downstream", 150, at_once=3, before=BESIDE),
    "task_group": Cause("sleep", "task_group", 200, at_once=3, before=BESIDE),
    "anyio_group": Cause("sleep", "anyio_group", 200, at_once=3, before=BESIDE),
    "gather_threads": Cause("sleep", "gather_threads", 200, at_once=3, before=BESIDE),
    "group_threads": Cause("sleep", "group_threads", 200, at_once=3, before=BESIDE),
    "anyio_threads": Cause("sleep", "anyio_threads", 200, at_once=3, before=BESIDE),
    "gather_service": Cause("downstream", "gather_service", 200, at_once=3, before=BESIDE),
    "wait_for": Cause("sleep", "wait_for", 200, at_once=3, before=BESIDE),
    "gil": Cause("lock", "gil_hops", 1),
    "decoy_hog": Cause("sleep", "sleep", 50, around="hog_elsewhere", decoy=("run_queue",)),
    "decoy_disk": Cause("sleep", "sleep", 50, around="disk_elsewhere", decoy=("disk",)),
    "decoy_lock": Cause("sleep", "sleep", 50, around="lock_elsewhere", decoy=("lock",)),
}
ANY = ("clean", "cpu", "sleep", "disk", "downstream", "quota", "hog", "decoy_hog", "decoy_disk")
PAIRS = ("lock_disk", "gil_downstream", "cpu_downstream", "hog_sleep")
IN_PYTHON = (*ANY, "retransmission", "reclaim", "interrupts", "lock", "lock_spin", "gil_holder", "faults", *PAIRS)
INFERENCE = (*IN_PYTHON, "slow_worker")

FASTAPI = ("fastapi==0.165.0", "starlette==1.10.0", "uvicorn==0.54.0", "uvloop==0.23.0", "httpx==0.28.1", "anyio==4.16.0")
STREAMING = ("clean", "clean_beside", "stream", "stream_sync", "stream_queue", "stream_service", "to_thread", "to_threadpool", "def_route", "thread_cpu", "downstream_beside")
TASKS = ("clean_beside", "task_group", "anyio_group", "gather_threads", "group_threads", "anyio_threads", "gather_service", "wait_for", "gil")
WEB, MLSERVER = ("uvicorn==0.54.0", "gunicorn==23.0.0", "asyncpg==0.30.0"), ("mlserver==1.7.1", "uvloop<0.22")
GRPC = ("grpcio==1.74.0",)
ON_LOOP = (*IN_PYTHON, "blocked_loop", "blocked_read")
IN_GO, IN_NODE = (*ANY, "lock", "gc"), (*ANY, "pool_cpu", "gc", "blocked_loop", "blocked_read")


@dataclass(frozen=True)
class Server:
    """`command`: interpreter and file, or "go" and the tag with which the folder go is built; PORT LOG FOLDER and `arguments` follow. `packages`: from PyPI; the interpreter of their
    environment replaces PYTHON. `programs`: needed on the PATH. `busy`: a thread that serves several requests one after the other keeps the others waiting;
    this is the cause of the ground truth for it. `model`: requests are inferences of this model. `option`: of the command line, the last argument; without
    it the server is left out. `protocol`: "http1", "http2" or "grpc". `tls`: the environment variable CERTIFICATE names the file with certificate and key."""
    command: tuple
    causes: tuple
    packages: tuple = ()
    programs: tuple = ()
    busy: str = ""
    model: str = ""
    arguments: tuple = ()
    option: str = ""
    protocol: str = "http1"
    tls: bool = False


CHAIN = ("clean", "cpu", "sleep", "disk", "downstream", "hog", "decoy_disk", "query_sleep", "query_lock", "query_cpu", "cpu_downstream", "blocked_loop")
SERVERS = {
    "threads": Server((PYTHON, "threads.py"), (*IN_PYTHON, "decoy_lock")),
    "prefork": Server((PYTHON, "prefork.py"), IN_PYTHON, WEB),
    "pool": Server((PYTHON, "pool.py"), (*IN_PYTHON, "slow_worker", "decoy_lock")),
    "asyncio": Server((PYTHON, "asyncio_server.py"), (*ON_LOOP, "decoy_lock"), WEB, busy="loop_busy"),
    "asyncio_pool": Server((PYTHON, "asyncio_server.py"), (*IN_PYTHON, "slow_worker", "decoy_lock"), WEB, arguments=("pool",)),
    **{f"{name}_{loop}": Server((PYTHON, "fastapi_server.py"), causes, FASTAPI, arguments=(loop,))
       for name, causes in (("streaming", STREAMING), ("tasks", TASKS)) for loop in ("asyncio", "uvloop")},
    "go": Server(("go", "http"), IN_GO),
    "node": Server(("node", "node_server.js"), IN_NODE, busy="loop_busy"),
    "java": Server(("java", "JavaServer.java"), (*ANY, "lock", "lock_spin", "gc", "slow_worker", "decoy_lock", "cpu_downstream"), programs=("javac",), busy="queue_behind"),
    "chain": Server((PYTHON, "chain.py"), CHAIN, WEB, programs=("nginx", "setpriv"), busy="loop_busy"),
    "threads_tls": Server((PYTHON, "threads.py"), IN_PYTHON, tls=True),
    "asyncio_tls": Server((PYTHON, "asyncio_server.py"), ON_LOOP, WEB, busy="loop_busy", tls=True),
    "go_tls": Server(("go", "http"), IN_GO, tls=True),
    "go_http2_tls": Server(("go", "http"), IN_GO, tls=True, protocol="http2"),
    "go_grpc": Server(("go", "grpc"), IN_GO, protocol="grpc"),
    "go_grpc_tls": Server(("go", "grpc"), IN_GO, tls=True, protocol="grpc"),
    "node_tls": Server(("node", "node_server.js"), IN_NODE, busy="loop_busy", tls=True),
    "grpc": Server((PYTHON, "grpc_server.py"), IN_PYTHON, GRPC, protocol="grpc"),
    "grpc_asyncio": Server((PYTHON, "grpc_server.py"), ON_LOOP, GRPC, busy="loop_busy", arguments=("asyncio",), protocol="grpc"),
    "mlserver": Server((PYTHON, "mlserver_start.py"), INFERENCE, MLSERVER, busy="queue_behind", model="work"),
    "triton": Server((PYTHON, "triton_start.py"), INFERENCE, busy="queue_behind", model="work", option="tritonserver"),
    "triton_ensemble": Server((PYTHON, "triton_start.py"), INFERENCE, busy="queue_behind", model="ensemble", option="tritonserver"),
    "triton_bls": Server((PYTHON, "triton_start.py"), INFERENCE, busy="queue_behind", model="bls", option="tritonserver"),
}

# A cause of the ground truth, and the kinds of `sonde why` that are right for it.
KINDS = {
    "cpu": {"cpu"},
    "gc": set(),  # and cpu and lock where the evidence names the collector
    "run_queue": {"run_queue", "quota"},
    "quota": {"quota"},  # and run_queue whose detail names the quota
    "lock": {"lock"},
    "sleep": {"sleep", "timer"},
    "disk": {"disk"},
    "downstream": {"downstream"},  # and segments in the called process
    "retransmission": {"retransmission"},  # a share of downstream; scoring.with_retransmissions
    "reclaim": {"reclaim"},  # a part of other; scoring.with_reclaim
    "interrupts": {"interrupts"},  # scoring.with_interrupts
    "loop_busy": {"loop_busy", "unread"},  # and segments of the loop that belong to another request
    "queue_behind": {"queue_behind", "lock", "loop_busy", "unread"},  # and segments that belong to another request
}
# Kinds that accuse something other than the request's own work: none may have more than ACCUSED_NS on a clean request.
ACCUSING = {"run_queue", "quota", "lock", "sleep", "timer", "disk", "downstream", "retransmission", "reclaim", "interrupts", "loop_busy", "queue_behind", "unread"}
ACCUSED_NS = 5_000_000
