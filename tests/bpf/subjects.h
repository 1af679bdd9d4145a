/* What the BPF tests provoke the BPF side with: children of the test program itself, so that one file is enough in a
 * bare initramfs, and functions whose frames are looked for on stacks. Built without frame pointers. */
#pragma once

#include <sys/types.h>

/* Calls `bottom`, which never returns, at the bottom of so many calls of one function. */
void subject_recurse(int depth, void (*bottom)(void));
/* Calls it in a signal handler (of these SA_* flags) that interrupted a function; there is an alternate stack. */
void subject_interrupt(int flags, void (*bottom)(void));

/* A child of the given name that burns CPU until it is killed. */
pid_t subject_named(const char *name);
void subject_kill(pid_t pid);

/* The code of the functions above, to tell frames by. */
enum subject_code { SUBJECT_RECURSE, SUBJECT_INTERRUPTED };
int subject_code_holds(enum subject_code code, unsigned long address);
