/* What the BPF tests provoke the kernel half with: children of the test program itself, so that one file is
 * enough in a bare initramfs. Each burns CPU until it is killed. Built without frame pointers. */
#pragma once

#include <sys/types.h>

/* A child whose stack is `depth` calls of subject_recurse over subject_burn. */
pid_t subject_deep(int depth);
/* A child that burns in a signal handler (of these SA_* flags) that interrupted subject_interrupted; it has an alternate stack. */
pid_t subject_signal(int flags);
/* A child that goes into the kernel over and over. */
pid_t subject_syscalls(void);
/* A child that waits for a byte on `*ret_go`, then begets a child of its own that burns. */
pid_t subject_family(int *ret_go);
/* A child of the given name that burns. */
pid_t subject_named(const char *name);
/* The same, until SIGUSR1 gives it another one. */
pid_t subject_renamed(const char *name, const char *other);

void subject_kill(pid_t pid);

/* The code of the functions above, to tell frames by. */
enum subject_code { SUBJECT_RECURSE, SUBJECT_INTERRUPTED };
int subject_code_holds(enum subject_code code, unsigned long address);
