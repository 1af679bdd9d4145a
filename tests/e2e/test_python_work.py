"""sonde.trace: token generations, and the request that a thread works for, in Python: the files and metrics written, and what bpftrace reads of
threads and of interleaved tasks."""
import re
import signal
import subprocess

import pytest
from harness.machine import need_command
from harness.processes import wait_for
from harness.workloads import Workload
from python_package import EVERY_PYTHON, env_of, package, python  # noqa: F401  (a fixture)
from python_traces import TRACES, head, stamps, write  # noqa: F401  (a fixture)


@pytest.mark.parametrize("interpreter", EVERY_PYTHON)
def test_generations_in_every_outcome(write, interpreter):  # noqa: F811
    """For every request, traced or not; with every kind of end, before or after the end of its trace."""
    traces, out, error = write("generations.py", interpreter, "-X", "dev")
    by_request = {head(objects).get("request_id"): objects for objects in traces.values()}
    assert head(by_request["one"])["generation"] == {"operation": "chat", "input_tokens": 5, "output_tokens": 3, "response_id": "r\u00e9",
                                                     "response_model": "m", "finish_reason": "stop"}
    assert [name for name, _ in stamps(by_request["one"])] == ["GENERATION_START", "FIRST_TOKEN", "TOKEN", "GENERATION_END"]
    assert head(by_request["two"])["generation"]["error_type"] == "KeyError"
    assert [name for name, _ in stamps(by_request["late"])] == ["GENERATION_START"] and "generation" not in head(by_request["late"])
    assert error == ""
    assert counted(out) == [("chat", "", 1), ("text_completion", "", 2), ("text_completion", "KeyError", 1)]


def counted(page):
    """(operation, error type, count) of each request series in metrics()."""
    labels = re.findall(r"^gen_ai_server_request_duration_seconds_count\{(.*)\} (\d+)$", page, re.M)
    return sorted((re.search(r'operation_name="(\w*)"', of)[1], (re.findall(r'error_type="(\w*)"', of) + [""])[0], int(count)) for of, count in labels)


@pytest.mark.sanitized
def test_invalid_generation_calls_fail_no_request(write):  # noqa: F811
    """Invalid values are reported and left out; valid ones in the same call are written, and failed generations do not count as successful."""
    traces, out, error = write("generations_invalid.py")
    by_request = {head(objects).get("request_id"): objects for objects in traces.values()}
    assert head(by_request["one"])["generation"] == {"operation": "c", "output_tokens": 3, "finish_reason": "length", "error_type": "timeout"}
    assert "generation" not in head(by_request["two"])  # request "two" ended before its generation
    assert counted(out) == [("a", "", 1), ("c", "timeout", 1), ("d", "", 1), ("e", "", 1), ("text_completion", "", 3)]
    assert error.count("Exception ignored") == 4 + 7 + 1 + 3 and "not stopped" not in out and "entered" not in out, error


@pytest.mark.sanitized
def test_concurrent_generations_are_counted(write):  # noqa: F811
    """A thousand concurrent generations, some traced, some cancelled, some dropped: each counts in its own series. They may outlive the objects that
    created them."""
    _, out, error = write("generations_tasks.py")
    found = {}
    for operation, error_type, count in counted(out):
        found[operation, error_type] = found.get((operation, error_type), 0) + count
    assert found == {("task", ""): 400, ("task", "CancelledError"): 100, ("thread", ""): 500} and error == ""
    assert re.search(r'^gen_ai_client_token_usage_sum\{.*"output".*"thread".*\} 3500\.0$', out, re.M), out


def test_context_variable_is_in_the_dynamic_symbol_table(package):  # noqa: F811
    """In the dynamic symbol table of the wheel's extension, with a relocation by name where the compiler supports it."""
    extension, = (package / "sonde").glob("_native*.so")
    said = subprocess.run([need_command("readelf"), "--dyn-syms", "-rW", extension], capture_output=True, text=True, timeout=60).stdout
    assert re.search(r" 8 TLS +GLOBAL DEFAULT +\d+ otel_thread_ctx_v1$", said, re.M)
    assert re.search(r"R_(X86_64|AARCH64)_TLSDESC\S* .*otel_thread_ctx_v1", said)


def test_debugger_reads_the_thread_context(package, run, root, tmp_path):  # noqa: F811
    """The context of a thread, in an extension loaded by dlopen, found by its symbol name as any reader would."""
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    running = run("/usr/bin/python3", TRACES / "debugged.py", parent, env=env_of(package), name="program")
    wait_for(lambda: "waiting" in running.out, what="the program", seen=running)
    commands = ["set pagination off", "tbreak sonde_trace_leave", f"shell touch {tmp_path}/attached", "handle SIGUSR1 nostop noprint pass", "continue",
                "x/25xb *(unsigned char **)&otel_thread_ctx_v1", "tbreak sonde_trace_end", "continue", "x/1xg &otel_thread_ctx_v1", "detach"]
    gdb = run(need_command("gdb"), "-q", "-nx", "-batch", "-p", running.pid, *(part for command in commands for part in ("-ex", command)), name="gdb")
    wait_for(lambda: (tmp_path / "attached").exists() or not gdb.alive, 60, "gdb to be attached")
    running.process.send_signal(signal.SIGUSR1)
    assert gdb.wait(60) == 0, gdb.error
    assert running.wait(60) == 0, running.error
    data = bytes(int(byte, 16) for line in re.findall(r"^0x[0-9a-f]+[^\n]*?:((?:\t0x[0-9a-f]{2})+)$", gdb.out, re.M) for byte in line.split())
    assert len(data) == 25, gdb.out + gdb.error
    assert data[:16].hex() == parent.split("-")[1] and any(data[16:24]) and data[24] == 1  # valid
    assert re.findall(r"^0x[0-9a-f]+[^\n]*?:\t(0x[0-9a-f]{16})$", gdb.out, re.M) == ["0x" + "0" * 16], gdb.out


SCRIPT = """
usdt:*:sonde_trace:request_start { printf("%lu %d start %lx %lu\\n", nsecs, tid, arg2, arg3); @began[arg2] = 1; }
usdt:*:sonde_trace:request_end { printf("%lu %d end %lx %d\\n", nsecs, tid, arg2, (int32)arg4); if (@began[arg2]) { @ends++; } if (@ends == 80) { exit(); } }
usdt:*:sonde_trace:thread_enter { printf("%lu %d enter %lx\\n", nsecs, tid, arg2); }
usdt:*:sonde_trace:thread_leave { printf("%lu %d leave %lx\\n", nsecs, tid, arg2); }
"""


@pytest.mark.peer  # bpftrace
@pytest.mark.parametrize("rate", [1, 1000000])
def test_bpftrace_follows_interleaved_tasks(package, run, tmp_path, tracefs, rate):  # noqa: F811
    """Four concurrent requests on one event loop, and a thread for each: a thread works for one request at a time, for each in several steps, and for
    none that has ended. Also for unsampled requests, whose ends are reported as well."""
    program = Workload(run("/usr/bin/python3", TRACES / "tasks_in_turn.py", rate, tmp_path / "trace.json", env=env_of(package), name="program"))
    received = run(need_command("bpftrace"), "-B", "none", "-p", program.pid, "-e", SCRIPT, name="bpftrace")
    wait_for(lambda: not received.alive, 60, "80 requests to have ended", received)
    assert program.running.alive, program.running.error
    lines = sorted((line.split() for line in received.out.splitlines() if re.match(r"\d+ \d+ \w+ ", line)), key=lambda line: int(line[0]))
    started, ended, entered, working, steps = {}, {}, {}, {}, {}
    attached = max(next(i for i, line in enumerate(lines) if line[2] == what) for what in ("start", "end", "enter", "leave"))  # one probe after another
    first = next(i for i, line in enumerate(lines) if i >= attached and line[2] == "start")
    for _, thread, what, span, *more in lines[first:]:
        if what == "start":
            started[span] = int(more[0])
        elif what == "end" and span in started:
            ended[span] = int(more[0])
        elif what == "enter" and span in started:
            assert span not in ended
            working.setdefault(thread, []).append(span)
            steps[span] = steps.get(span, 0) + 1
            entered.setdefault(span, set()).add(thread)
        elif what == "leave" and working.get(thread):
            working[thread].pop()
            assert int(span, 16) == (int(working[thread][-1], 16) if working[thread] else 0), (span, working)
    whole = [span for span in ended if span in steps]
    assert len(whole) > 60
    outcomes = [ended[span] for span in whole]
    assert {0, 1, 2} == set(outcomes) and 0.3 < outcomes.count(0) / len(outcomes) < 0.7
    assert all(steps[span] >= 5 and len(entered[span]) == 2 for span in whole if ended[span] != 2)
    assert {bool(started[span]) for span in whole} == {rate == 1}


def test_working_blocks_are_transparent_to_coroutines(package):  # noqa: F811
    """A coroutine returns and raises as it would without the block; blocks may be left in any order, also after their request has ended."""
    out, error = python(package, TRACES / "working.py", "/usr/bin/python3", "-X", "dev")
    assert out == "" and "Traceback" not in error and "Warning" not in error, error
