"""The command line as users meet it: help, invalid flags, configuration errors, and man pages that agree with --help."""
import re
import subprocess

import pytest

from harness.paths import BUILD, TOP

VERBS = ["up", "agent", "record", "why", "requests", "io", "io report", "memory", "probes", "bpf", "server", "token", "doctor"]


@pytest.fixture
def run_sonde(sonde):
    """run_sonde(arguments...) runs sonde to its end."""
    return lambda *arguments: subprocess.run([str(sonde), *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                                             text=True, timeout=60)


def man_page(verb):
    name = "sonde-up" if verb == "agent" else f"sonde-{verb}".replace(" ", "-")
    return (TOP / "docs" / "man" / f"{name}.1").read_text().replace("\\-", "-")


@pytest.mark.parametrize("verb", VERBS)
def test_help_and_manual_agree(run_sonde, verb):
    done = run_sonde(*verb.split(), "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: sonde {verb} ")
    options = set(re.findall(r"--([a-z-]+)", done.stdout.split("Options:")[1])) - {"help"}
    assert options or verb in ("doctor", "token")
    page = man_page(verb)
    for option, words in re.findall(r"^  .*--([a-z-]+) (.*)$", done.stdout, re.M):
        entry = re.search(rf"^\.B.*--{option}\b.*\n((?:(?!\.TP|\.SH).*\n)*)", page, re.M)
        for figure in re.findall(r"\bup to (\d+)\b|\bdefault ([^,); ]+)[,)]", words):
            assert option == "help" or "".join(figure) in entry[1], f"the manual of {verb} does not say {figure} of --{option}"
    for option in options:
        assert f"--{option}" in page, f"--{option} is missing in the manual of {verb}"
    for option in set(re.findall(r"^\.(?:BR|BI|B) .*--([a-z-]+)", page, re.M)):
        assert option in options or verb == "agent" or option == "config", f"the manual of {verb} knows --{option}, the program does not"


def test_help_and_manual_of_trace_agree(run_sonde):
    """One man page for all subcommands of `sonde trace`: each has a section with exactly its flags."""
    page = man_page("trace")
    verbs = dict(re.findall(r"^  ([a-z]+) +(\S.*)$", run_sonde("trace", "--help").stdout, re.M))
    assert "summary" in verbs
    for verb in verbs:
        done = run_sonde("trace", verb, "--help")
        assert done.returncode == 0 and done.stdout.startswith(f"Usage: sonde trace {verb} ")
        section = re.search(rf'^\.SS "?sonde trace {verb}.*\n((?:(?!\.SS|\.SH).*\n)*)', page, re.M)
        assert section, f"the manual has no section on {verb}"
        documented = set(re.findall(r"^\.B.*--([a-z-]+)", section[1], re.M))
        assert documented == set(re.findall(r"--([a-z-]+)", done.stdout.split("Options:")[1])) - {"help"}
    assert run_sonde("trace").returncode == 2 and "Usage" in run_sonde("trace").stderr
    assert run_sonde("trace", "sumary").returncode == 2 and "sumary" in run_sonde("trace", "sumary").stderr


def test_missing_and_unknown_subcommand(run_sonde):
    done = run_sonde()
    assert done.returncode == 2 and "record" in done.stderr
    done = run_sonde("recrod")
    assert done.returncode == 2 and "recrod" in done.stderr
    assert run_sonde("--version").stdout.startswith("sonde ")


@pytest.mark.parametrize("arguments, expected", [
    (["record", "--rate", "fast"], "'fast' is not a whole number from 1 to"),
    (["record", "-F"], "needs a value"),
    (["record", "-F", "0"], "whole number"),
    (["record", "-d", "10 parsecs"], "such as 10s or 5m"),
    (["why", "--last", "1h"], "1.00 s to 300 s"),
    (["record", "-o", "profile.exe", "-d", "1"], ".pb.gz"),
    (["record", "-p", "4194304"], "no process 4194304"),
    (["record", "-p", "me"], "not a process number"),
    (["record", "-a", "-p", "1"], "-a cannot be combined with -p"),
    (["record", "-c", "feedfacefeedface", "-d", "1"], "no container"),
    (["record", "--replay", "/nowhere", "-o", "-"], "/nowhere"),
    (["why", "--slowest", "0"], "whole number from 1"),
    (["why", "--agent", "127.0.0.1:1"], "no agent at 127.0.0.1:1"),
    (["requests", "--agent", "127.0.0.1:1"], "no agent at 127.0.0.1:1; start one with `sonde up`"),
    (["requests", "--last", "1h"], "1.00 s to 300 s"),
    (["requests", "all"], "unexpected argument 'all'"),
    (["io", "--by", "job,inode"], "'job,inode': one or several of job, container, mount, process, file"),
    (["io", "--by", ""], "'': one or several of"),
    (["io", "--sort", "size"], "'size': one of time, bytes, read, write, syncs, operations"),
    (["io", "-i", "1ms"], "100 ms to 3600 s"),
    (["up", "--set", "budget.one_cpu=lots"], "budget.one_cpu: 'lots'"),
    (["up", "--set", "bugdet.cpu=1%"], "unknown key"),
    (["up", "--set", "page.listen=nowhere", "--print-config", "extra"], "extra"),
    (["up", "--frobnicate"], "unknown option --frobnicate"),
    (["doctor", "--json=yes"], "takes no value"),
    (["doctor", "now"], "unexpected argument 'now'"),
    (["why", "--json", "nginx"], "'nginx' is no trace ID"),
])
@pytest.mark.sanitized
def test_invalid_arguments_are_explained(run_sonde, arguments, expected):
    done = run_sonde(*arguments)
    assert done.returncode in (1, 2)
    assert expected in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) <= 4


@pytest.mark.sanitized
@pytest.mark.parametrize("arguments", [["version"], ["version", "--json"], ["token", "new"]])
def test_output_that_cannot_be_written_is_a_failure(sonde, arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run([sonde, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert f"{arguments[0]}: standard output cannot be written: No space left" in done.stderr


def test_configuration_file_errors(run_sonde, tmp_path):
    path = tmp_path / "sonde.yaml"
    path.write_text("profile:\n  rate: 19\n  speed: 3\n")
    done = run_sonde("up", "-c", path)
    assert done.returncode == 2
    assert f"{path}:3: unknown key 'profile.speed'" in done.stderr and "profile.rate" in done.stderr
    path.write_text("budget:\n  memory: 64 MB/s\n")
    done = run_sonde("up", "-c", path)
    assert done.returncode == 2 and f"{path}:2: budget.memory: '64 MB/s' is not allowed" in done.stderr
    done = run_sonde("up", "-c", tmp_path / "none.yaml")
    assert done.returncode == 2 and "none.yaml" in done.stderr


@pytest.mark.sanitized
def test_printed_configuration_can_be_read_back(run_sonde, tmp_path):
    first = run_sonde("up", "--print-config", "--set", "profile.rate=49", "--set", "budget.one_cpu=0.5%", "--listen", "[::1]:7070", "--set",
                "page.allowed_hosts=[::1]:8080, sonde.example.org")
    assert first.returncode == 0 and "rate: 49" in first.stdout
    path = tmp_path / "sonde.yaml"
    path.write_text(first.stdout)
    assert run_sonde("up", "-c", path, "--print-config").stdout == first.stdout


def test_manual_of_the_configuration_file_has_all_keys(run_sonde, tmp_path):
    """sonde.yaml(5) and --print-config have the same keys in the same order, the same defaults and the same bounds."""
    empty = tmp_path / "sonde.yaml"
    empty.write_text("")
    printed, section = {}, None
    for line in run_sonde("up", "-c", empty, "--print-config").stdout.splitlines():
        if not line.startswith(" "):
            section = line.rstrip(":")
            continue
        key, value, words = re.fullmatch(r"  (\w+): (.*?)    # (.*)", line).groups()
        printed[f"{section}.{key}"] = (value.strip('"') or "none", words)
    page = (BUILD / "docs" / "sonde.yaml.5").read_text().replace("\\-", "-")
    documented = dict(re.findall(r"^\.B ([\w.]+)\n(.*)$", page.partition(".SH KEYS")[2].partition(".SH EXAMPLE")[0], re.M))
    assert list(documented) == list(printed)
    printed["budget.one_cpu"] = ("10%", printed["budget.one_cpu"][1])  # of other numbers of CPUs another one, as the manual says
    for key, (default, words) in printed.items():
        assert f"({default})" in documented[key], f"{key}: the default is {default}; the manual says: {documented[key]}"
        bounds = documented[key].partition("(")[0]
        allowed = words.rpartition(" (")[2]
        assert set(re.findall(r"\b\d[\d.]*\w*%?", bounds)) <= set(re.findall(r"\b\d[\d.]*\w*%?", allowed)), f"{key}: allowed is: {allowed}"
    path = tmp_path / "example.yaml"
    path.write_text(re.search(r"\.SH EXAMPLE\n\.nf\n(.*?)\.fi", page, re.S)[1])
    assert run_sonde("up", "-c", path, "--print-config").returncode == 0, "its example is refused"


def test_agent_has_no_page(agent):
    status, _, body = agent(verb="agent").get("/")
    assert status == 404 and b"/metrics, /healthz" in body and b"/api/v1/routes" in body, body
