"""Options of a command line, the trace protocol in both forms, and calls after the end."""
import sys

from sonde import trace

m, rest = trace.Manager.from_args(["server", "--port", "80", "--trace-config", "rate=5", "--trace-config=level=TIMESTAMPS", "--trace-count", "7",
                                   "--trace-config", "triton,file=/nowhere/trace.json",
                                   "-v", "--", "--trace-config", "rate=6"])
assert rest == ["server", "--port", "80", "-v", "--", "--trace-config", "rate=6"], rest
sys.argv = ["program", "--trace-file=/nowhere/trace.json", "x"]
assert trace.Manager.from_args()[1] == ["x"]
status, body = m.http("GET", "/v2/trace/setting")
assert status == 200 and b'"trace_rate":"5"' in body and b'"trace_count":"7"' in body
assert m.http("POST", "/v2/trace/setting", '{"trace_rate":"8"}')[0] == 200 and m.http("DELETE", "/v2/trace/setting")[0] == 405
assert m.http("GET", "/v2/models/simple/trace/setting")[0] == 400
simple = m.model("simple")
assert m.http("GET", "/v2/models/simple/trace/setting")[0] == 200
assert m.http("GET", "/v2/health/ready") is None and m.http("GET", "/v2/trace/setting\0") is None
assert m.grpc()["trace_rate"] == ["8"] and m.grpc("simple", {"trace_rate": ["3"], "trace_count": []})["trace_rate"] == ["3"]
for call, kind, text in [(lambda: m.grpc("simple", {"trace_rate": ["x"]}), trace.Refused, "(3, \"Unable to parse 'trace_rate', got: x\")"),
                         (lambda: m.grpc("", {"trace_file": ["f"]}), trace.Refused, "(12,"), (lambda: m.grpc("nobody"), trace.Refused, "(3,"),
                         (lambda: m.grpc("", {"trace_rate": [1]}), TypeError, "a str"), (lambda: m.grpc("", {1: ["1"]}), TypeError, "a str"),
                         (lambda: trace.Manager("rate=x"), ValueError, '--trace-config rate'), (lambda: trace.Manager(["nope=1"]), ValueError, "nope"),
                         (lambda: trace.Manager(["opentelemetry,url=http://x"]), ValueError, "opentelemetry"),
                         (lambda: trace.Manager.from_args(["--trace-config"]), ValueError, "requires an argument"),
                         (lambda: m.model(""), ValueError, "name"), (lambda: m.model("a" * 2000), ValueError, "name"), (lambda: m.model("a\0"), ValueError, "null")]:
    try:
        call()
        print("taken:", text)
    except kind as error:
        assert text in str(error), (text, str(error))
m.close(); m.close()
assert not simple.start() or simple.start().end() is None
for call in (lambda: m.model("x"), m.stats, lambda: m.http("GET", "/v2/trace/setting"), m.grpc, m.flush):
    try:
        call()
        print("open")
    except RuntimeError:
        pass
with trace.Manager("triton,file=/nowhere/trace.json") as m:
    assert m.stats()["sampled"] == 0
