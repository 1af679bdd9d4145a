"""Loads of the row `churn`: programs that start all the time, new executable files, and requests. Each is (name, command, the largest share of one CPU that
an agent may use, or None where the machine lacks what the load needs); the command runs until it is killed."""
import sys
from pathlib import Path

from measure import which

TOP = Path(__file__).resolve().parent.parent
WORKLOADS = TOP / "build/workloads"
CRATES = 12
BUILD_SCRIPT = 'fn main() { let mut sum = 0u64; for i in 0..20_000_000u64 { sum = sum.wrapping_mul(31).wrapping_add(i); } println!("cargo:rustc-env=SUM={}", sum); }\n'
LIBRARY = """
use std::collections::BTreeMap;
pub const SUM: &str = env!("SUM");
macro_rules! shapes { ($($name:ident),*) => { $(
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct $name { pub words: Vec<String>, pub counts: BTreeMap<String, Vec<u64>> }
impl $name {
    pub fn add(&mut self, text: &str) -> usize {
        for word in text.split_whitespace() { self.words.push(word.to_owned()); self.counts.entry(word.to_owned()).or_default().push(word.len() as u64); }
        self.counts.values().map(|all| all.iter().copied().filter(|n| n % 3 == 0).count()).sum()
    }
    pub fn text(&self) -> String { format!("{:?} {:?}", self.words.iter().rev().collect::<Vec<_>>(), self.counts) }
}
)* } }
shapes!(A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P);
"""
# Compiles a program, another one each time, and runs it for a moment.
NEW_PROGRAMS = """
import os, subprocess, sys
for i in range(10**9):
    path = f"{sys.argv[1]}/program{i % 8}"
    subprocess.run(["gcc", "-O1", "-static", f"-DN={i}", "-x", "c", "-o", path + ".new", "-"], check=True,
                   input=b"int main(void) { volatile long sum = N; for (long i = 0; i < 30000000; i++) sum += i; return 0; }")
    os.rename(path + ".new", path)
    subprocess.run([path])
"""
# A thousand requests a second over 20 connections; 2 % of them take 100 ms.
REQUESTS = """
import re, socket, subprocess, sys, threading, time
server = subprocess.Popen([sys.argv[1], "threads", "0", "/tmp"], stdout=subprocess.PIPE, text=True)
port = int(re.search(r"port (\\d+)", server.stdout.readline())[1])
def client(number):
    with socket.create_connection(("127.0.0.1", port)) as s:
        due = time.monotonic() + number / 1000
        for i in range(number, 10**9):
            s.sendall(f"GET /{'naps?ms=80' if i % 50 == 0 else 'ok'} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode())
            s.recv(65536)
            due += 0.02
            time.sleep(max(0, due - time.monotonic()))
for number in range(20): threading.Thread(target=client, args=(number,), daemon=True).start()
time.sleep(10**9)
"""


def workspace(folder):
    """A Cargo workspace of crates with build scripts and without dependencies, so that no network is needed."""
    names = [f"part{i}" for i in range(CRATES)]
    for name in names:
        crate = folder / name
        (crate / "src").mkdir(parents=True)
        (crate / "Cargo.toml").write_text(f'[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2021"\nbuild = "build.rs"\n')
        (crate / "build.rs").write_text(BUILD_SCRIPT)
        (crate / "src/lib.rs").write_text(LIBRARY)
    (folder / "Cargo.toml").write_text(f"[workspace]\nresolver = \"2\"\nmembers = {names}\n".replace("'", '"'))
    return folder


def forever(command):
    return ["sh", "-c", f"while :; do {command}; done"]


def loads(folder):
    yield "nothing", ["sleep", "infinity"], 0.005
    yield "gcc in a loop", forever(f"gcc -O2 -D_GNU_SOURCE -S -o /dev/null {TOP}/tests/workloads/deep.c"), 0.015
    yield "Python in a loop", forever("/usr/bin/python3 -c 'import ast, asyncio, http.client; ast.parse(open(ast.__file__).read())'"), 0.015
    yield "Node in a loop", which("node") and forever("node -e 'let s = 0; for (let i = 0; i < 1e6; i++) s += JSON.stringify({i}).length'"), 0.015
    yield "programs compiled, run once", [sys.executable, "-c", NEW_PROGRAMS, folder], 0.015
    yield "cargo build, again and again", which("cargo") and forever(f"cd {workspace(folder / 'workspace')} && rm -rf target && cargo build --offline -q"), 0.015
    yield "1,000 requests a second, 2 % of 100 ms", [sys.executable, "-c", REQUESTS, WORKLOADS / "server"], 0.04
