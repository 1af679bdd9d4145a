"""What is installed beside the binary: completion that knows every verb and flag, a unit that systemd takes."""
import os
import re
import subprocess

import pytest

from conftest import TOP, need_command


def verbs(sonde):
    text = subprocess.run([sonde, "--help"], capture_output=True, text=True).stdout
    return re.findall(r"^  ([a-z]+) +\S", text, re.M)


def flags(sonde, verb):
    return set(re.findall(r"^  .*?(--[a-z-]+)", subprocess.run([sonde, verb, "--help"], capture_output=True, text=True).stdout, re.M))


def bash_complete(sonde, *words):
    quoted = " ".join(f"'{word}'" for word in ("sonde", *words))
    script = f"source {TOP}/packaging/completion/sonde.bash; COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _sonde; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30, env=dict(os.environ, PATH=f"{sonde.parent}:{os.environ['PATH']}"))
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_verbs_and_flags(sonde):
    assert {"up", "agent", "record", "why", "doctor"} <= set(verbs(sonde)) <= bash_complete(sonde, "")
    for verb in verbs(sonde):
        assert flags(sonde, verb) <= bash_complete(sonde, verb, "--"), verb
    assert bash_complete(sonde, "record", "--pid", "") >= {"1"}
    assert bash_complete(sonde, "record", "-p", "") >= {"1"}
    assert bash_complete(sonde, "record", "-o", f"{TOP}/Makef") == {f"{TOP}/Makefile"}


@pytest.mark.parametrize("shell,arguments,name", [("zsh", ["-n"], "_sonde"), ("fish", ["--no-execute"], "sonde.fish")])
def test_other_shells_parse_theirs(shell, arguments, name):
    done = subprocess.run([need_command(shell), *arguments, TOP / "packaging/completion" / name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_unit_file(tmp_path, sonde):
    unit = tmp_path / "sonde.service"
    text = (TOP / "packaging/sonde.service.in").read_text().replace("@bindir@/sonde", str(sonde))
    unit.write_text(re.sub(r"^Documentation=.*\n", "", text, flags=re.M))
    done = subprocess.run([need_command("systemd-analyze"), "verify", unit], capture_output=True, text=True, timeout=60)
    complaints = [line for line in done.stderr.splitlines() if "sonde.service" in line]
    assert not complaints, done.stderr


def test_every_verb_has_help(sonde):
    for verb in verbs(sonde):
        done = subprocess.run([sonde, verb, "--help"], capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.startswith(f"Usage: sonde {verb} "), done
    assert subprocess.run([sonde, "nonsense"], capture_output=True).returncode == 2
