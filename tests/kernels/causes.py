"""What tests/kernels/run needs for causes.sh: kernel modules, programs, and the evaluation of its console output."""
import json
import re
import shutil
import subprocess
from pathlib import Path

MODULES = ("brd", "loop", "dm-mod", "dm-delay", "sch_netem", "sch_prio", "cls_u32")
COMMANDS = ("tc", "dmsetup")
SLACK_NS = 10_000_000
# Route: kind, minimum injected delay, text in the detail. netem delays each packet by 80 ms: the connection's two, the request and the reply.
# The first packet of a connection is lost, and sent again after a second. dm-delay delays each read or write by 100 ms. 40 ms of CPU at 5 in each 100
# take seven more periods, if the whole 5 are available.
INJECTED = {"/disk": ("disk", 100_000_000, "fsync of written-"), "/downstream": ("downstream", 320_000_000, ""),
            "/downstream-lost": ("downstream", 1_000_000_000, "1 retransmission"),
            "/cpu-hog": ("run_queue", 60_000_000, ""), "/cpu-quota": ("run_queue", 400_000_000, "quota")}
# Which socket a thread connects, and what TCP does on it, is not recorded before Linux 6.3.
WITHOUT_SOCKETS = {"/downstream-lost": ("downstream", 1_000_000_000, "connect")}


def read_module(path):
    """Its bytes, uncompressed."""
    if path.suffix != ".xz":
        return path.read_bytes()
    return subprocess.run(["xz", "-dc", path], stdin=subprocess.DEVNULL, capture_output=True).stdout


def keep_modules(tree, folder):
    """From an unpacked kernel package, uncompressed."""
    folder.mkdir(exist_ok=True)
    for name in MODULES:
        for path in Path(tree).glob(f"**/{name}.ko*"):
            (folder / f"{name}.ko").write_bytes(read_module(path))


def missing_modules(folder):
    return [name for name in MODULES if not (folder / f"{name}.ko").exists()]


def unavailable_reason(modules):
    """The reason why the causes cannot be tested, or None."""
    missing = missing_modules(modules) + [name for name in COMMANDS if not find(name)]
    return f"not there: {', '.join(missing)}" if missing else None


def find(command):
    return shutil.which(command) or shutil.which(command, path="/usr/sbin:/sbin")


def copy_files(root, place, modules, server):
    """Copies the files into the initramfs; returns the line of the script that runs them."""
    shutil.copytree(modules, root / "modules", dirs_exist_ok=True)
    shutil.copy(Path(__file__).with_suffix(".sh"), root / "causes")
    place(root, server, "t/server")
    for command in COMMANDS:
        place(root, Path(find(command)), f"t/{command}")
    return "timeout -s KILL 1200 sh /causes 2>&1"


def total(request, kind, detail=""):
    return sum(part["ns"] for part in request["parts"] if part["kind"] == kind and detail in part["detail"])


def error_in(request, kind, least_ns, detail):
    """The error in a request's latency breakdown, or None."""
    if sum(part["ns"] for part in request["parts"]) != request["duration_ns"]:
        return "the components do not sum to the duration"
    # How much CPU time a request takes in an emulator, and how long it waits for a CPU, depends on the emulator.
    counted = {part["kind"] for part in request["parts"]} - ({"cpu", "run_queue", "unattributed"} - {kind})
    if max(counted, key=lambda k: total(request, k), default=None) != kind:
        return f"most of its waiting time is not {kind}"
    found = total(request, kind, detail) + (total(request, "run_queue") if kind != "run_queue" else 0)
    if found < least_ns - SLACK_NS:
        return f"{found / 1e6:.0f} ms found, {least_ns / 1e6:.0f} injected"
    if total(request, "unattributed") > request["duration_ns"] / 10:
        return "more than a tenth is unattributed"
    return None


def evaluate(text):
    """[(outcome, name, why)] from the console."""
    block = re.search(r"^@@@ causes begin$(.*?)^@@@ causes why$(.*?)^@@@ causes end$", text, re.M | re.S)
    if not block:
        at = text.find("@@@ causes begin")
        return [("FAIL", "causes", "did not come to their end: " + " ".join(text[at:].split())[-400:])]
    try:
        requests = json.loads(block[2])["requests"]
    except ValueError:
        return [("FAIL", "causes", "no JSON: " + " ".join((block[1] + block[2]).split())[-400:])]
    results = []
    kernel = re.search(r"^@@@ kernel (\d+)\.(\d+)", text, re.M)
    has_sockets = not kernel or tuple(map(int, kernel.groups())) >= (6, 3)
    for route, (kind, least_ns, detail) in (INJECTED if has_sockets else INJECTED | WITHOUT_SOCKETS).items():
        found = [request for request in requests if request["route"] == route]
        why = f"{len(found)} requests of it: " + " ".join(block[1].split())[-300:]
        if len(found) == 1:
            why = error_in(found[0], kind, least_ns, detail)
            why = why and f"{why}: {json.dumps(found[0])}"
        results.append(("FAIL", f"causes{route}", why) if why else ("pass", f"causes{route}", ""))
    return results
