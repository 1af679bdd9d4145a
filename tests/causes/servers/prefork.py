"""Pre-forked processes that serve one request at a time: gunicorn with sync workers."""
from common import Server, now, parse
from gunicorn.app.base import BaseApplication

WORKERS = 4
server = Server()


def reply(environ, start_response):
    t0 = now()
    route, parameters, number = parse(f"{environ['PATH_INFO']}?{environ['QUERY_STRING']}")
    truth = server.work(route, parameters)
    t1 = now()
    start_response("200 OK", [("Content-Length", "2")])
    yield b"ok"
    server.record(number, route, t0, t1, truth)  # when the worker asks for more: the reply is out


class Prefork(BaseApplication):
    def load_config(self):
        for name, value in {"bind": f"127.0.0.1:{server.port}", "workers": WORKERS, "loglevel": "warning", "backlog": 1024}.items():
            self.cfg.set(name, value)

    def load(self):
        return reply


Prefork().run()
