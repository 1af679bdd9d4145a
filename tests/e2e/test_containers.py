"""Programs whose root is an overlay, as in containers: source lines, debug files and JIT code names come from the files that the program sees, not
from the host's."""
import re
import shutil
import subprocess

import pytest

from harness.fired import assert_exact, fire_and_stay, fires
from harness.machine import need_command, skip
from harness.processes import wait_for
from harness.workloads import Workload, workload_path
from source_lines import LINES, addr2line, eu_addr2line, places

# The upper directory is on a tmpfs: an overlay cannot have another overlay as its upper layer.
ENTER = """
mount -t tmpfs none "$0" && mkdir "$0/upper" "$0/work" "$0/merged" &&
mount -t overlay overlay -o lowerdir="$1",upperdir="$0/upper",workdir="$0/work" "$0/merged" &&
cd "$0/merged" && mkdir -p tmp old && pivot_root . old && shift && exec "$@"
"""


class Container:
    def __init__(self, folder):
        self.root, self.over = folder / "lower", folder / "over"
        for place in (self.root / "app", self.over):
            place.mkdir(parents=True)
        need_command("pivot_root")

    def needs(self, program):
        """Copies a program's libraries to where its loader looks for them."""
        said = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
        for path in re.findall(r"(/\S+) \(0x", said):
            place = self.root / path[1:]
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)

    def command(self, *command):
        return ["unshare", "--pid", "--fork", "--mount", "sh", "-c", ENTER, self.over, self.root, *command]


@pytest.fixture
def container(root, tmp_path):
    it = Container(tmp_path)
    it.needs("/bin/true")
    shutil.copy("/bin/true", it.root / "app/true")
    done = subprocess.run(list(map(str, it.command("/app/true"))), capture_output=True, text=True)
    if done.returncode != 0:
        skip("no overlay can be a root here: " + done.stderr.strip()[-200:])
    return it


class Inside(Workload):
    """A program exec'ed by a container's command, identified by its pid on the host."""

    def __init__(self, running, name):
        super().__init__(running)

        def find():
            said = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(running.pid)], capture_output=True, text=True).stdout
            return re.search(rf"(\d+) {name}$", said, re.M)
        self.pid = int(wait_for(find, 60, name)[1])


def build(container, name, *flags):
    """Built into the container's /app, with no host path in it."""
    app = container.root / "app"
    for file in ("program.c", "fire.h"):
        shutil.copy(LINES / file, app / file)
    subprocess.run([need_command("gcc"), "-O2", "-D_GNU_SOURCE", "-Wl,--build-id", f"-ffile-prefix-map={container.root}=", *flags, "-o", app / name, app / "program.c"],
                   check=True, cwd=app)
    container.needs(app / name)
    return app / name


def put_debug_file_apart(container, program):
    said = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout
    number = re.search(r"Build ID: (\w+)", said)[1]
    place = container.root / "usr/lib/debug/.build-id" / number[:2] / (number[2:] + ".debug")
    place.parent.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", program, place], check=True)
    subprocess.run(["strip", program], check=True)


@pytest.mark.parametrize("form", ["whole", "apart", "split"])
def test_lines_of_a_program_in_a_container(container, recording, run, form):
    plain = build(container, "plain", "-gdwarf-4")
    program = build(container, "program", *(["-gdwarf-4", "-gsplit-dwarf"] if form == "split" else ["-gdwarf-4"]))
    if form == "apart":
        put_debug_file_apart(container, program)
    workload = Inside(run(*container.command("/app/program", 5, "wait"), env=fires(stay=True)), "program")
    profile = fire_and_stay(recording, workload, "--inlines")
    ours = places(profile.samples, "/app/program")
    theirs = {address: chain for address, chain in addr2line(plain, ours).items() if chain[0][1]}
    theirs = {address: chain if ours[address] == chain else eu_addr2line(plain, address) for address, chain in theirs.items()}
    assert {address: ours[address] for address in theirs} == theirs, profile.messages
    assert {place for chain in ours.values() for _, place, _ in chain} >= {"/app/program.c"}
    assert any([name for name, _, _ in chain] == ["outer", "middle", "innermost"] for chain in ours.values()), ours


def test_lines_of_a_program_that_has_ended(container, fire, run):
    """The process holds its file open, wherever it is."""
    build(container, "program", "-gdwarf-4")
    profile = fire(Inside(run(*container.command("/app/program", 5, "wait")), "program"), "--inlines")
    chains = places(profile.samples, "/app/program").values()
    assert any([name for name, _, _ in chain] == ["outer", "middle", "innermost"] for chain in chains), profile.messages


@pytest.mark.parametrize("how", ["map", "dump"])
def test_jit_code_in_a_container_has_names(container, recording, run, how):
    """The perf map is named by the pid in the program's own PID namespace and lies in its own root's /tmp."""
    shutil.copy(workload_path("jitted"), container.root / "app/jitted")
    container.needs(workload_path("jitted"))
    workload = Inside(run(*container.command("/app/jitted", 600, how), env=fires(stay=True)), "jitted")
    assert_exact(fire_and_stay(recording, workload), workload.stack)
