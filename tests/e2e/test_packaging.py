"""Files installed with the binary: completion that covers every subcommand and flag, a unit file that systemd accepts, a configuration file that says the
defaults, packages that have every file. What `version` prints."""
import fnmatch
import json
import os
import re
import subprocess
from pathlib import PurePath

import pytest

from harness.machine import need_command
from harness.paths import BUILD, TOP
from terminal import Terminal


def subcommands(sonde):
    text = subprocess.run([sonde, "--help"], capture_output=True, text=True).stdout
    return re.findall(r"^  ([a-z]+) +\S", text, re.M)


def flags(sonde, subcommand):
    return set(re.findall(r"^  .*?(--[a-z-]+)", subprocess.run([sonde, subcommand, "--help"], capture_output=True, text=True).stdout, re.M))


def bash_complete(sonde, *words):
    quoted = " ".join(f"'{word}'" for word in ("sonde", *words))
    script = f"source {TOP}/packaging/completion/sonde.bash; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _sonde; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30, env=dict(os.environ, PATH=f"{sonde.parent}:{os.environ['PATH']}"))
    assert done.stderr == ""
    return set(done.stdout.split())


EVENTS = {"page-faults", "minor-faults", "major-faults", "context-switches", "cpu-migrations", "cycles", "instructions", "cache-references", "cache-misses",
          "branches", "branch-misses", "mmap", "brk", "tracepoint:", "usdt:"}


def test_bash_completes_subcommands_and_flags(sonde):
    assert {"up", "agent", "record", "diff", "why", "requests", "io", "trace", "probes", "bpf", "doctor", "version"} <= set(subcommands(sonde)) <= bash_complete(sonde, "")
    for subcommand in subcommands(sonde):
        assert flags(sonde, subcommand) <= bash_complete(sonde, subcommand, "--"), subcommand
    assert bash_complete(sonde, "trace", "s") >= {"summary"}
    assert bash_complete(sonde, "trace", "summary", "--p") == {"--percentiles"}
    assert bash_complete(sonde, "record", "--pid", "") >= {"1"}
    assert bash_complete(sonde, "record", "-p", "") >= {"1"}
    assert bash_complete(sonde, "probes", "-p", "") >= {"1"} and bash_complete(sonde, "probes", "--j") == {"--json"}
    assert bash_complete(sonde, "record", "--event", "") == EVENTS
    assert bash_complete(sonde, "record", "--event", "cache-m") == {"cache-misses"}
    assert bash_complete(sonde, "record", "-o", f"{TOP}/Makef") == {f"{TOP}/Makefile"}


@pytest.mark.peer
def test_fish_completes_subcommands_and_flags(sonde):
    fish = need_command("fish")

    def complete(line):
        """{word: its description} offered by fish at the end of the line."""
        done = subprocess.run([fish, "--no-config", "-c", f"source {TOP}/packaging/completion/sonde.fish; complete -C '{line}'"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, env=dict(os.environ, PATH=f"{sonde.parent}:{os.environ['PATH']}"))
        assert done.returncode == 0 and done.stderr == "", done
        return dict(line.partition("\t")[::2] for line in done.stdout.splitlines())
    assert set(complete("sonde ")) == set(subcommands(sonde))
    assert complete("sonde rec") == {"record": "Record a profile of CPU time, off-CPU time or events into a file"}
    for subcommand in subcommands(sonde):
        assert set(complete(f"sonde {subcommand} --")) == flags(sonde, subcommand), subcommand
    assert "summary" in complete("sonde trace ") and set(complete("sonde trace summary --p")) == {"--percentiles"}
    assert complete("sonde why --st") == {"--stacks": "also print the stack of every wait"}
    assert "1" in complete("sonde record --pid ") and "1" in complete("sonde record -p ")
    assert set(complete("sonde record --event ")) == EVENTS
    assert set(complete(f"sonde record -o {TOP}/Makef")) == {f"{TOP}/Makefile"}
    assert not any(word.startswith("--") for word in complete("sonde record -- ls -")), "behind -- stands a command of the user's"


ZSH_START = """
PS1='ready> '; unsetopt beep
fpath=({folder} $fpath); autoload -U compinit; compinit -u -D
tell() {{ print -r -- "$BUFFER" >> {answers}; BUFFER= }}; zle -N tell; bindkey '^X^T' tell
"""


@pytest.fixture
def zsh_complete(sonde, tmp_path):
    """zsh_complete(line) types the line and Tab into an interactive zsh, and returns the resulting line."""
    answers, at = tmp_path / "answers", 0
    answers.write_text("")
    zsh = Terminal(need_command("zsh"), "-f", "-i", PATH=f"{sonde.parent}:{os.environ['PATH']}", HOME=str(tmp_path))
    start = tmp_path / "start"
    start.write_text(ZSH_START.format(folder=TOP / "packaging/completion", answers=answers))
    zsh.type(f"source {start}\n")
    zsh.wait_for(lambda seen: "ready> " in seen, what="zsh")

    def complete(line):
        nonlocal at
        zsh.type(line + "\t\x18\x14")

        def answer(_):
            lines = answers.read_text().split("\n")
            return lines[at] if len(lines) > at + 1 else None
        found = zsh.wait_for(answer, what=f"the completion of {line!r}")
        at += 1
        return found
    yield complete
    zsh.kill()
    assert "not found" not in zsh.seen and "_sonde:" not in zsh.seen, zsh.seen


@pytest.mark.peer
def test_zsh_completes_subcommands_and_flags(sonde, zsh_complete):
    for subcommand in subcommands(sonde):
        assert zsh_complete(f"sonde {subcommand[:-1]}") == f"sonde {subcommand} "
        for flag in sorted(flags(sonde, subcommand)):
            assert zsh_complete(f"sonde {subcommand} {flag[:-1]}").startswith(f"sonde {subcommand} {flag}"), (subcommand, flag)
    assert zsh_complete("sonde trace su") == "sonde trace summary "
    assert zsh_complete("sonde trace summary --perc").startswith("sonde trace summary --percentiles")
    assert zsh_complete(f"sonde trace summary {TOP}/Makef") == f"sonde trace summary {TOP}/Makefile "
    assert zsh_complete(f"sonde record -o {TOP}/Makef") == f"sonde record -o {TOP}/Makefile "
    assert zsh_complete("sonde record --event maj") == "sonde record --event major-faults "
    assert zsh_complete("sonde record --event tracep") == "sonde record --event tracepoint: "
    assert zsh_complete(f"sonde record -- cat {TOP}/Makef") == f"sonde record -- cat {TOP}/Makefile "
    assert zsh_complete("sonde up --listen ") == "sonde up --listen ", "an address is for the user to say"
    assert zsh_complete("sonde record --recordwire") == "sonde record --recordwire", "an option that does not exist is completed"


def test_systemd_accepts_the_unit_file(tmp_path, sonde):
    unit = tmp_path / "sonde.service"
    text = (TOP / "packaging/sonde.service.in").read_text().replace("@bindir@/sonde", str(sonde))
    unit.write_text(re.sub(r"^Documentation=.*\n", "", text, flags=re.M))
    done = subprocess.run([need_command("systemd-analyze"), "verify", unit], capture_output=True, text=True, timeout=60)
    complaints = [line for line in done.stderr.splitlines() if "sonde.service" in line]
    assert not complaints, done.stderr


def test_version_names_formats_and_libraries(sonde, tmp_path):
    said = json.loads(subprocess.run([sonde, "version", "--json"], capture_output=True, text=True, check=True).stdout)
    assert f"version: '{said['version']}'" in (TOP / "meson.build").read_text()
    assert said["revision"] is None or re.fullmatch(r"(\S+-g)?[0-9a-f]{40}(-dirty)?", said["revision"])
    assert set(said["formats"]) == {"api", "recording", "otlp_profiles"}
    assert f"/api/v{said['formats']['api']}/" in (TOP / "docs/page.md").read_text()
    libraries = {library["name"]: library for library in said["libraries"]}
    assert {name for name, library in libraries.items() if "needed_for" in library} == {"libmicrohttpd", "libcurl", "libdw"}
    assert all(re.match(r"\d+\.\d+", library["version"]) for library in libraries.values()), libraries
    text = subprocess.run([sonde, "version"], capture_output=True, text=True, check=True).stdout
    assert text.startswith(f"sonde {said['version']}\n") and re.search(rf"^  libdw +{libraries['libdw']['version']}$", text, re.M)
    (tmp_path / "libdw.so.1").touch()  # no ELF file: the loader fails
    text = subprocess.run([sonde, "version"], capture_output=True, text=True, check=True, env=dict(os.environ, LD_LIBRARY_PATH=str(tmp_path))).stdout
    assert re.search(r"^  libdw +not installed; needed for source lines", text, re.M), text


def test_unit_file_leaves_few_rights():
    """systemd's own rating, times ten. A higher one is a decision; docs/operate.md says what each remaining right is for."""
    done = subprocess.run([need_command("systemd-analyze"), "security", "--no-pager", "--offline=true", "--threshold=26", BUILD / "packaging/sonde.service"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "Overall exposure level" in done.stdout, done.stdout[-200:] + done.stderr


def print_config(sonde, path):
    return subprocess.run([sonde, "up", "--config", path, "--print-config"], env={}, capture_output=True, text=True, timeout=30)


def test_default_configuration_is_the_programs_own(sonde, tmp_path):
    """As installed, with everything commented out, and with every key uncommented, it is the configuration that holds without a file."""
    text = subprocess.run([TOP / "packaging/default-config", sonde], capture_output=True, text=True, check=True, timeout=30).stdout
    expected = print_config(sonde, "/dev/null").stdout
    head, _, keys = text.partition("#\n")
    for name, content in (("commented.yaml", text), ("uncommented.yaml", re.sub("^# ?", "", keys, flags=re.M))):
        (tmp_path / name).write_text(content)
        done = print_config(sonde, tmp_path / name)
        assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")
    for key in re.findall(r"^  (\w+):", expected, re.M):
        assert re.search(rf"^#   {key}: ", keys, re.M), key


def test_every_installed_file_is_in_a_package():
    """meson's list of installed files, at the paths of a package's build, against the patterns of packaging/deb/*.install."""
    patterns = {line.split()[0]: path.stem for path in (TOP / "packaging/deb").glob("*.install") for line in path.read_text().splitlines()}
    listed = subprocess.run(["meson", "introspect", "--installed", BUILD], capture_output=True, text=True, check=True).stdout
    found = set()
    for path in json.loads(listed).values():
        inside = "usr/" + path.removeprefix("/usr/local/")
        inside = inside.replace("usr/lib/systemd", "lib/systemd")  # packaging/deb/rules moves it
        owners = {pattern for pattern in patterns if PurePath(inside).match(pattern) or fnmatch.fnmatch(inside, pattern + "/*")}
        assert len({patterns[pattern] for pattern in owners}) == 1, f"{inside}: in packages {owners}"
        found |= owners
    assert set(patterns) - found == {"etc/sonde"}, "a pattern that matches nothing"


def test_every_subcommand_has_help(sonde):
    for subcommand in subcommands(sonde):
        done = subprocess.run([sonde, subcommand, "--help"], capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.startswith(f"Usage: sonde {subcommand} "), done
    assert subprocess.run([sonde, "nonsense"], capture_output=True).returncode == 2
