"""Libraries as large programs map them: many functions, each with a symbol and unwind information, and every file with a build id of its own."""
import hashlib
import subprocess

MARK = hashlib.sha1(b"the build id that each copy has replaced").digest()
FUNCTIONS = 8000
OTHER_BYTES = 180  # size of a function without its padding, with its symbol and unwind information


def source(padding):
    """Functions that call each other across the whole file, N deep, and then work a little."""
    lines = ["#define PADDING __asm__ volatile(\".skip " + str(padding) + ", 0x90\")", "#define F(here, there) long f##there(long); \\",
             "long f##here(long n) { long found = 0; if (n > 0) found = f##there(n - 1) + 1; else for (volatile int i = 0; i < 2000; i++) found++; \\",
             "if (found < 0) PADDING; return found; }"]
    return "\n".join(lines + [f"F({i}, {(i + 7919) % FUNCTIONS})" for i in range(FUNCTIONS)]) + "\n"


def make(folder, count, total_bytes):
    """Makes `count` libraries of about that total size; returns their paths. The argument of f0, f1, ... is the depth of their call chain."""
    first = folder / "library.so"
    (folder / "library.c").write_text(source(total_bytes // count // FUNCTIONS - OTHER_BYTES))
    subprocess.run(["gcc", "-O1", "-fPIC", "-shared", "-Wl,-Bsymbolic", f"-Wl,--build-id=0x{MARK.hex()}", "-o", first, folder / "library.c"], check=True)
    data, paths = first.read_bytes(), []
    for i in range(count):
        paths.append(folder / f"library{i}.so")
        paths[-1].write_bytes(data.replace(MARK, hashlib.sha1(str(i).encode()).digest()))
    return paths
