"""Requests that are not traced: every call does nothing, and valid headers of the caller are propagated."""
from begun import manager, model

manager.http("POST", "/v2/models/simple/trace/setting", b'{"trace_level":["OFF"]}')
t = model.start("id")
assert not t and t.level == 0 and t.id == 0 and t is model.start()
t.timestamp("REQUEST_START", 1, 2, 3); t.tensor(); t.set_request_id(4); t.end("nonsense")
with t as same, t.child(5) as child:
    assert same is t is child
parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
t = model.start(None, parent, b"a=b")
assert not t and t.context() == t.child(model).context() == {"traceparent": parent, "tracestate": "a=b"}
assert model.start(tracestate="a=b").context() == {}
for bad in ("x\r\nSet-Cookie: a", b"a\0b", "\u00e9", "", b"\xff", "\ud800"):
    assert model.start(traceparent=bad).context() == {}, bad
    assert model.start(traceparent=parent, tracestate=bad).context() == {"traceparent": parent}
