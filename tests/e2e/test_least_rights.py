"""The rights that an agent keeps, on all of its threads and helper processes (src/base/least_rights.c)."""
from pathlib import Path

KEPT = {"kill": 5, "chown": 0, "setgid": 6, "setuid": 7, "net_bind_service": 10, "dac_read_search": 2, "sys_ptrace": 19, "sys_admin": 21, "sys_resource": 24,
        "syslog": 34, "perfmon": 38, "bpf": 39, "checkpoint_restore": 40}


def status_of(task):
    return dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)


def children_of(pid):
    children = [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]
    return [pid] + [each for child in children for each in children_of(child)]


def test_threads_and_helper_processes_have_no_other_rights(agent):
    a = agent()
    mask = sum(1 << number for number in KEPT.values())
    tasks = [task for pid in children_of(a.pid) for task in Path(f"/proc/{pid}/task").iterdir()]
    assert len(tasks) > 6  # threads of the agent, and its helper processes
    for task in tasks:
        status = status_of(task)
        assert int(status["CapEff"], 16) & ~mask == 0 and int(status["CapPrm"], 16) & ~mask == 0, status["Name"]
        assert status["Seccomp"].strip() == "2" and status["NoNewPrivs"].strip() == "1", status["Name"]
