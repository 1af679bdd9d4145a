/* Functions whose frames the tests look for stand in sections of their own, between symbols that the linker
 * makes. */
#include "subjects.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALTERNATE_BYTES 65536 /* more than is copied of a stack */

#define PLACED(section_name) __attribute__((noinline, noclone, section(section_name)))

/* Made by the linker for sections whose names are identifiers. */
extern const char __start_code_recurse[], __stop_code_recurse[];
extern const char __start_code_interrupted[], __stop_code_interrupted[];

static volatile uint64_t sink;
static volatile sig_atomic_t burning, enough; /* never enough, but the compiler must not know */

int subject_code_holds(enum subject_code code, unsigned long address)
{
    const char *at = (const char *)address;

    if (code == SUBJECT_RECURSE)
        return at >= __start_code_recurse && at < __stop_code_recurse;
    return at >= __start_code_interrupted && at < __stop_code_interrupted;
}

__attribute__((noinline, noclone)) static void burn(void)
{
    burning = 1;
    while (!enough)
        sink = sink * 3 + 1;
}

PLACED("code_recurse") static int recurse(int depth)
{
    volatile char room[72];
    int below;

    room[depth % 72] = (char)depth;
    if (depth <= 1) {
        burn();
        return 0;
    }
    below = recurse(depth - 1);
    return below + room[depth % 72];
}

static void on_signal(int number)
{
    (void)number;
    burn();
}

PLACED("code_interrupted") static void interrupted(void)
{
    while (!burning)
        sink = sink + 1;
}

static pid_t begin(void)
{
    pid_t pid = fork();

    if (pid == 0)
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

pid_t subject_deep(int depth)
{
    pid_t pid = begin();

    if (pid == 0) {
        sink = (uint64_t)recurse(depth);
        _exit(0);
    }
    return pid;
}

pid_t subject_signal(int flags)
{
    pid_t pid = begin();

    if (pid == 0) {
        const stack_t alternate = {.ss_sp = malloc(ALTERNATE_BYTES), .ss_size = ALTERNATE_BYTES};
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};

        (void)sigaltstack(&alternate, NULL);
        (void)sigaction(SIGALRM, &action, NULL);
        (void)ualarm(20000, 0);
        interrupted();
        _exit(0);
    }
    return pid;
}

pid_t subject_syscalls(void)
{
    pid_t pid = begin();

    if (pid == 0) {
        int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        static char buffer[1 << 16];

        while (fd >= 0 && read(fd, buffer, sizeof(buffer)) > 0)
            sink++;
        _exit(0);
    }
    return pid;
}

pid_t subject_family(int *ret_go)
{
    int ends[2];
    pid_t pid;

    if (pipe(ends) < 0)
        return -1;
    pid = begin();
    if (pid == 0) {
        char go;

        if (read(ends[0], &go, 1) == 1 && begin() == 0)
            burn();
        for (;;)
            pause();
    }
    close(ends[0]);
    *ret_go = ends[1];
    return pid;
}

pid_t subject_named(const char *name)
{
    pid_t pid = begin();

    if (pid == 0) {
        (void)prctl(PR_SET_NAME, name);
        burn();
    }
    return pid;
}

static const char *other_name;

static void take_other_name(int number)
{
    (void)number;
    (void)prctl(PR_SET_NAME, other_name);
}

pid_t subject_renamed(const char *name, const char *other)
{
    pid_t pid;

    other_name = other;
    (void)signal(SIGUSR1, take_other_name); /* before there is anybody to get one */
    pid = subject_named(name);
    (void)signal(SIGUSR1, SIG_DFL);
    return pid;
}

void subject_kill(pid_t pid)
{
    if (pid <= 0)
        return;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}
