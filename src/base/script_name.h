/* What an interpreter runs: "journal.py" of the arguments "python3 -u /srv/journal.py --fast". */
#pragma once

#include <stddef.h>

/* `arguments`: of a process, as /proc/PID/cmdline has them: `size` bytes, each argument ends with a zero byte, the last
 * one may be cut off. Returns in `out` the last part of a script's path, or the name of a module ("-m http.server") or
 * of a class; "" if the program is no known interpreter, or runs code that is itself an argument. */
void script_name(const char *arguments, size_t size, char *out, size_t out_size);
