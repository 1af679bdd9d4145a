/* Workload functions of the BPF tests: they run in children of the test program itself, so that one file is enough in
 * a bare initramfs, and push frames that the tests check for on stacks. Built without frame pointers. */
#pragma once

#include <sys/types.h>

/* Calls `bottom`, which never returns, below `depth` calls of one function. */
void frames_recurse(int depth, void (*bottom)(void));
/* Calls it in a signal handler (with these SA_* flags) that interrupted a function, with an alternate stack installed.
 */
void frames_interrupt(int flags, void (*bottom)(void));

/* Forks a child with the given name that burns CPU until it is killed. */
pid_t burner_start(const char *name);
void burner_kill(pid_t pid);

/* Address ranges of the functions above. */
enum frames_code { FRAMES_RECURSE, FRAMES_INTERRUPTED };
const void *frames_code_start(enum frames_code code);
int frames_code_contains(enum frames_code code, unsigned long address);
