"""A real Triton with Python models: one that does the work of a request, an ensemble of two steps, and one that calls the first (BLS).
PORT LOG FOLDER DIRECTORY-OF-TRITON"""
import os
import shutil
import sys
from pathlib import Path

port, log, folder, triton = sys.argv[1:]
HERE, repository = Path(__file__).resolve().parent, Path(log).parent / "triton-models"
WORKERS = 4
TENSORS = 'input [{name: "target" data_type: TYPE_STRING dims: [1]}] output [{name: "next" data_type: TYPE_STRING dims: [1]}]\n'
PYTHON = f'backend: "python"\n{TENSORS}instance_group [{{kind: KIND_CPU count: {WORKERS}}}]\n'
STEPS = """platform: "ensemble"
ensemble_scheduling { step [
  {model_name: "work" model_version: -1 input_map {key: "target" value: "target"} output_map {key: "next" value: "second"}},
  {model_name: "work" model_version: -1 input_map {key: "target" value: "second"} output_map {key: "next" value: "next"}}] }
"""
MODELS = {"work": PYTHON, "bls": PYTHON + 'parameters {key: "calls" value: {string_value: "work"}}\n', "ensemble": TENSORS + STEPS}

for name, configuration in MODELS.items():
    (repository / name / "1").mkdir(parents=True, exist_ok=True)
    (repository / name / "config.pbtxt").write_text(f'name: "{name}"\n{configuration}')
    if configuration.startswith("backend"):
        shutil.copy(HERE / "triton_model.py", repository / name / "1/model.py")
os.execve(f"{triton}/bin/tritonserver", [
    "tritonserver", f"--model-repository={repository}", f"--backend-directory={triton}/backends", "--http-address=127.0.0.1", f"--http-port={port}",
    "--allow-grpc=false", "--allow-metrics=false"],
    {**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(HERE), "CAUSES_LOG": log, "CAUSES_FOLDER": folder})
