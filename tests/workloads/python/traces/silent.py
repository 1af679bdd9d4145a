"""The package without its native part: the same calls trace nothing."""
import sonde
from sonde import trace

manager, rest = trace.Manager.from_args(["--trace-config", "rate=1", "--port", "1"])
assert rest == ["--port", "1"] and not sonde.native
model = manager.model("simple", version=1)
parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
t = model.start("r", parent, tracestate=b"a=b")
assert not t and t.id == t.level == 0 and t.context() == {"traceparent": parent, "tracestate": "a=b"}
with t as same:
    t.timestamp("REQUEST_START", ns=1); t.tensor("TENSOR_QUEUE_INPUT", "x", "FP32", [1], [1.0]); t.set_request_id("s"); t.end("error", message="m")
assert same is t and t.child(model) is t and model.start().context() == {}
with t.working(), model.generation(t, operation="chat") as g:
    g.tokens(); g.tokens(count=2); g.end(input_tokens=1, output_tokens=2, finish_reason="a", response_id="b", response_model="c", error_type="d")
assert manager.metrics() == "" and manager.stats()["generations"] == 0 and isinstance(g, trace.Generation)
assert manager.http("GET", "/v2/trace/setting") is None and manager.stats()["sampled"] == 0 and manager.flush(1)
try:
    manager.grpc()
    print("answered")
except trace.Refused as refused:
    assert refused.args[0] == 12
manager.close()
isinstance(t, trace.Trace) and isinstance(model, trace.Model) or print("other types")
