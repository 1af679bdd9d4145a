"""Which paths name a model, and which names are remembered."""
from asked import app, ask, manager
from sonde import asgi

middleware = ask.__defaults__[1]
def named(path, **scope):
    t = ask(path, **scope)
    return t.id > 0
for path in ("/v2/models/a/infer", "/v2/models/a/versions/2/infer", "/v2/models/a/versions/x/generate", "/v2/models/a b\u00e9/infer_stream"):
    assert named(path), path
for path in ("/v2/models/a", "/v2/models//infer", "/v2/models/a/b/infer", "/v2/models/a/infer/", "/infer", "/v2/models/a\0/infer", "/v2/models/\ud800/infer",
             "/v2/models/" + "a" * 2000 + "/infer"):
    assert not named(path), path
assert named("/v2/models/a/versions/" + "9" * 30 + "/infer")
assert not named("/v2/models/a/infer", method="GET")
assert named("/api/v2/models/a/infer", root_path="/api") and not named("/api/v2/models/a/infer")

for n in range(3000):
    ask(f"/v2/models/none{n}/infer", status=404)
assert not named("/v2/models/none2999/infer", status=404) and named("/v2/models/none5/infer", status=404)
assert manager.http("GET", "/v2/models/none5/trace/setting")[0] == 400 and manager.http("GET", "/v2/models/a/trace/setting")[0] == 200
assert not named("/v2/models/new/infer") and named("/v2/models/new/infer"), "traced from its first success on, whichever requests came before"
assert not named("/v2/models/other/infer", status=503) and not named("/v2/models/other/infer", status=404) and not named("/v2/models/other/infer")
assert named("/v2/models/other/infer") and len(middleware._models._tried) == 1024
assert not named("/v2/models/" + "b" * 2000 + "/infer") and not named("/v2/models/" + "b" * 2000 + "/infer")
assert manager.http("GET", "/v2/models/none2999/trace/setting")[0] == 400
assert named("/v2/models/a/infer", status=404) and manager.http("GET", "/v2/models/a/trace/setting")[0] == 200  # of its versions
held = manager.model("held")
for chosen, traced in [("x", True), (("x", 7), True), (None, False), (held, True)]:
    middleware = asgi.TraceMiddleware(app, manager=manager, model=lambda scope: chosen)
    assert (ask("/anything", middleware=middleware).id > 0) == traced, chosen
closed = asgi.TraceMiddleware(app, manager=manager, endpoints=False)
assert ask("/v2/trace/setting", "GET") is None and ask("/v2/trace/setting", "GET", closed) is not None
manager.close()
assert not named("/v2/models/after/infer")
