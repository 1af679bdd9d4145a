"""A real MLServer with parallel workers: an event loop that hands inferences to worker processes. PORT LOG FOLDER"""
import json
import os
import socket
import sys
from pathlib import Path

port, log, folder = sys.argv[1:]
WORKERS = 4
models = Path(log).parent / "mlserver"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


(models / "work").mkdir(parents=True, exist_ok=True)
(models / "settings.json").write_text(json.dumps({
    "host": "127.0.0.1", "http_port": int(port), "grpc_port": free_port(), "metrics_port": free_port(), "parallel_workers": WORKERS, "debug": False,
    "environments_dir": str(models / "environments")}))
(models / "work/model-settings.json").write_text(json.dumps({"name": "work", "implementation": "mlserver_model.Work"}))
here = str(Path(__file__).resolve().parent)
os.chdir(models)  # not the directory of this file, which has a common.py and more
os.execve(Path(sys.executable).with_name("mlserver"), ["mlserver", "start", str(models)],
          {**os.environ, "PYTHONPATH": here, "CAUSES_LOG": log, "CAUSES_FOLDER": folder})
