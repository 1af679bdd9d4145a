"""Libraries as large programs map them: many functions, a symbol and unwind information for each, and every file another one to who looks at it."""
import hashlib
import subprocess

MARK = hashlib.sha1(b"the build id that each copy has replaced").digest()
FUNCTIONS = 8000
OTHER_BYTES = 180  # of a function beside its padding, with its symbol and its unwind information


def source(padding):
    """Functions that call each other from all over the file, N deep, and then work a little."""
    lines = ["#define PADDING __asm__ volatile(\".skip " + str(padding) + ", 0x90\")", "#define F(here, there) long f##there(long); \\",
             "long f##here(long n) { long found = 0; if (n > 0) found = f##there(n - 1) + 1; else for (volatile int i = 0; i < 2000; i++) found++; \\",
             "if (found < 0) PADDING; return found; }"]
    return "\n".join(lines + [f"F({i}, {(i + 7919) % FUNCTIONS})" for i in range(FUNCTIONS)]) + "\n"


def make(folder, count, total_bytes):
    """Makes `count` libraries of about that size in all; their paths. The functions f0, f1, ... each call so many others as their argument says."""
    first = folder / "library.so"
    (folder / "library.c").write_text(source(total_bytes // count // FUNCTIONS - OTHER_BYTES))
    subprocess.run(["gcc", "-O1", "-fPIC", "-shared", "-Wl,-Bsymbolic", f"-Wl,--build-id=0x{MARK.hex()}", "-o", first, folder / "library.c"], check=True)
    data, paths = first.read_bytes(), []
    for i in range(count):
        paths.append(folder / f"library{i}.so")
        paths[-1].write_bytes(data.replace(MARK, hashlib.sha1(str(i).encode()).digest()))
    return paths
