"""A service as if on another node: in a network namespace, behind a veth pair. Packets to it can get lost."""
import contextlib
import os
import socket
import subprocess
import sys

import injections
import programs

HERE, ADDRESS = "198.18.7.1", "198.18.7.2"  # RFC 2544: networks for benchmarks
# Drops every second packet with data: a request, but not the same request sent again. A handshake has no data and at most 60 bytes.
LOSS = "table ip lost {{ chain input {{ type filter hook input priority 0; tcp dport {port} ip length > 60 numgen inc mod 2 0 drop; }}\n}}\n"
# A burst takes several ms, because each packet passes all rules. It has fewer than 64 packets: beyond that, the kernel continues in a thread.
RULES = "table ip slow {{ chain input {{ type filter hook input priority 0; {rules} }}\n}}\n"
RULES_COUNT, DISCARD_PORT = 8000, 9
BURST, PAUSE_S = 40, 0.004
SENDER = """
import socket, sys, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.connect((sys.argv[1], int(sys.argv[2])))
    while True:
        for _ in range(int(sys.argv[3])):
            try:
                s.send(b"packet")
            except ConnectionRefusedError:
                pass
        time.sleep(float(sys.argv[4]))
"""


def command(*words, text=""):
    done = subprocess.run(words, input=text, capture_output=True, text=True)
    if done.returncode:
        raise programs.packages.Missing(f"{' '.join(words)}: {done.stderr.strip()}")


def connects(port):
    with contextlib.closing(socket.socket()) as s:
        return s.connect_ex((ADDRESS, port)) == 0


class RemoteService:
    """The slow service in a namespace, which ends with its process. Raises packages.Missing where this kernel or a program does not allow it."""

    def __init__(self, port):
        self.port, self.address = port, f"{ADDRESS}:{port}"
        self.process = programs.start_service("0.0.0.0", port, "unshare", "--net")
        try:
            self.connect_namespace()
        except BaseException:
            self.stop()
            raise

    def connect_namespace(self):
        own, link = os.readlink("/proc/self/ns/net"), f"causes{os.getpid()}"
        programs.wait_until(lambda: os.readlink(f"/proc/{self.process.pid}/ns/net") != own, 10, "there is no network namespace")
        command("ip", "link", "add", link, "type", "veth", "peer", "name", "causes", "netns", str(self.process.pid))
        command("ip", "address", "add", f"{HERE}/30", "dev", link)
        command("ip", "link", "set", link, "up")
        self.inside("ip", "address", "add", f"{ADDRESS}/30", "dev", "causes")
        self.inside("ip", "link", "set", "causes", "up")
        self.inside("nft", "--check", "--file", "-", text=LOSS.format(port=self.port))
        programs.wait_until(lambda: connects(self.port), 10, "the remote service does not listen")

    def stop(self):
        programs.stop(self.process)

    def inside(self, *words, text=""):
        command("nsenter", "--target", str(self.process.pid), "--net", *words, text=text)

    @contextlib.contextmanager
    def storm(self, from_cpu, to_cpu):
        """Meanwhile, bursts of packets that `from_cpu` sends to this namespace are received by `to_cpu`, which a list of firewall rules makes slow."""
        rules = "".join(f"ip saddr 10.{i >> 8}.{i & 255}.1 drop; " for i in range(RULES_COUNT)) + f"udp dport {DISCARD_PORT} drop;"
        self.inside("unshare", "--mount", "sh", "-ec", f"mount -t sysfs causes /sys && echo {1 << to_cpu:x} >/sys/class/net/causes/queues/rx-0/rps_cpus")
        self.inside("nft", "--file", "-", text=RULES.format(rules=rules))
        sender = [sys.executable, "-c", SENDER, ADDRESS, str(DISCARD_PORT), str(BURST), str(PAUSE_S)]
        try:
            with injections.processes([sender], from_cpu):
                yield
        finally:
            self.inside("nft", "delete", "table", "ip", "slow")

    @contextlib.contextmanager
    def loss(self):
        """Meanwhile, each request is lost once."""
        self.inside("nft", "--file", "-", text=LOSS.format(port=self.port))
        try:
            yield
        finally:
            self.inside("nft", "delete", "table", "ip", "lost")
