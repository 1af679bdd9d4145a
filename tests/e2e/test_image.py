"""The container image: its digests, the programs that run in it, and other tools that read it."""
import gzip
import hashlib
import json
import re
import subprocess
import tarfile

import pytest
import yaml
from harness.agents import agents
from harness.machine import need_command, need_root
from harness.paths import BUILD, TOP
from harness.processes import wait_for
from harness.workloads import workload_path


def build(folder):
    done = subprocess.run([TOP / "packaging/container/build", BUILD / "sonde", folder], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    return build(tmp_path_factory.mktemp("image"))


def tag(image):
    (only,) = json.loads((image / "index.json").read_text())["manifests"]
    return only["annotations"]["org.opencontainers.image.ref.name"]


def blob(image, descriptor):
    content = (image / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes()
    assert descriptor["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}" and descriptor["size"] == len(content), descriptor
    return content


@pytest.fixture(scope="module")
def manifest(image):
    (only,) = json.loads((image / "index.json").read_text())["manifests"]
    return json.loads(blob(image, only))


@pytest.fixture(scope="module")
def root_folder(image, manifest, tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    for descriptor in manifest["layers"]:
        (folder / "layer.tar").write_bytes(gzip.decompress(blob(image, descriptor)))
        with tarfile.open(folder / "layer.tar") as layer:
            layer.extractall(folder / "root", filter="fully_trusted") if hasattr(tarfile, "fully_trusted_filter") else layer.extractall(folder / "root")
    return folder / "root"


def test_blobs_have_their_digests(image, manifest):
    config, (layer,) = json.loads(blob(image, manifest["config"])), manifest["layers"]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(gzip.decompress(blob(image, layer))).hexdigest()}"]
    assert config["os"] == "linux" and config["config"]["Entrypoint"] == ["/usr/bin/sonde"]
    assert len(list((image / "blobs/sha256").iterdir())) == 3 and json.loads((image / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}


def test_tag_names_the_commit(image):
    commit = subprocess.run(["git", "-C", TOP, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True)
    version = subprocess.run([TOP / "packaging/version"], capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"\w[\w.-]{0,127}", tag(image)) and re.split(r"\W+", tag(image)) == re.split(r"\W+", version.strip())
    assert commit.returncode != 0 or "~" not in version or commit.stdout.strip() in tag(image)


def test_every_library_is_there_and_its_package_named(root_folder):
    need_root()
    done = subprocess.run([need_command("chroot"), root_folder, "/usr/bin/sonde", "version", "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    libraries = json.loads(done.stdout)["libraries"]
    assert done.returncode == 0 and len(libraries) >= 7 and all(library["version"] for library in libraries), done
    packages = {path.name for path in (root_folder / "var/lib/dpkg/status.d").iterdir()}
    assert {"libc6", "libmicrohttpd12", "libcurl4", "libdw1", "ca-certificates"} <= packages
    assert all((root_folder / "usr/share/doc" / package / "copyright").read_text().strip() for package in packages)
    assert not (root_folder / "bin/sh").exists()


def test_agent_observes_from_its_image(root_folder, run, workload, tmp_path):
    """As in the DaemonSet: its own files, the machine's processes, /proc and /sys, and the capabilities of the chart."""
    need_root()
    script = tmp_path / "sonde"
    capabilities = yaml.safe_load((TOP / "packaging/helm/sonde/values.yaml").read_text())["capabilities"]
    bounding = "-all,+sys_chroot," + ",".join(f"+{name.lower()}" for name in capabilities)
    mounts = " && ".join(f"mount --rbind /{name} {root_folder}/{name}" for name in ("proc", "sys", "dev"))
    script.write_text(f'#!/bin/sh\n{mounts} && mount -t tmpfs run {root_folder}/run && exec setpriv --bounding-set={bounding} chroot {root_folder} /usr/bin/sonde "$@"\n')
    script.chmod(0o755)
    limited = tmp_path / "own-mounts"
    limited.write_text(f'#!/bin/sh\nexec unshare --mount {script} "$@"\n')
    limited.chmod(0o755)
    with agents(limited, run) as start:
        agent = start("--set", "requests.enabled=false", "--set", "recorder.enabled=false")
        assert agent.text("/healthz")
        spinner = workload("cxx", 100000, "throw", path=workload_path("cxx"))
        wait_for(lambda: "main;shop::throw_and_catch" in agent.text(f"/api/v1/profile?format=folded&pid={spinner.pid}"), 60, "names of functions")


@pytest.mark.peer
def test_image_is_reproducible(image, tmp_path):
    assert (build(tmp_path) / "index.json").read_bytes() == (image / "index.json").read_bytes()


@pytest.mark.peer
def test_skopeo_and_umoci_read_the_image(image, manifest, root_folder, tmp_path):
    version = tag(image)
    inspected = json.loads(subprocess.run([need_command("skopeo"), "inspect", f"oci:{image}:{version}"], capture_output=True, check=True, timeout=60).stdout)
    assert inspected["Os"] == "linux" and inspected["Layers"] == [layer["digest"] for layer in manifest["layers"]]
    assert inspected["Labels"] == manifest["annotations"] and inspected["Labels"]["org.opencontainers.image.version"] == version
    subprocess.run([need_command("skopeo"), "copy", "--insecure-policy", f"oci:{image}:{version}", f"docker-archive:{tmp_path}/sonde.tar:sonde:{version}"],
                   capture_output=True, check=True, timeout=60)
    subprocess.run([need_command("umoci"), "unpack", "--rootless", "--image", f"{image}:{version}", tmp_path / "bundle"], capture_output=True, check=True, timeout=60)
    unpacked = {path.relative_to(tmp_path / "bundle/rootfs") for path in (tmp_path / "bundle/rootfs").rglob("*")}
    assert unpacked == {path.relative_to(root_folder) for path in root_folder.rglob("*")}
