/* Functions whose frames the tests check for are in sections of their own, between symbols that the linker defines. */
#include "subjects.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALTERNATE_BYTES      65536 /* more than is copied of a stack */
#define PAGE_BYTES           4096

#define PLACED(section_name) __attribute__((noinline, noclone, section(section_name)))

/* Defined by the linker for sections whose names are identifiers. */
extern const char __start_code_recurse[], __stop_code_recurse[];
extern const char __start_code_interrupted[], __stop_code_interrupted[];

static volatile uint64_t sink;
static volatile sig_atomic_t enough; /* never set; hides this from the compiler */
static void (*at_bottom)(void);
static volatile char *no_access;

const void *frames_code_start(enum frames_code code)
{
    return code == FRAMES_RECURSE ? __start_code_recurse : __start_code_interrupted;
}

int frames_code_contains(enum frames_code code, unsigned long address)
{
    const char *at = (const char *)address;

    if (code == FRAMES_RECURSE)
        return at >= __start_code_recurse && at < __stop_code_recurse;
    return at >= __start_code_interrupted && at < __stop_code_interrupted;
}

__attribute__((noinline, noclone)) static void burn(void)
{
    while (!enough)
        sink = sink * 3 + 1;
}

PLACED("code_recurse") static int recurse(int depth)
{
    volatile char room[72];
    int below;

    room[depth % 72] = (char)depth;
    if (depth <= 1) {
        at_bottom();
        return 0;
    }
    below = recurse(depth - 1);
    return below + room[depth % 72];
}

void frames_recurse(int depth, void (*bottom)(void))
{
    at_bottom = bottom;
    sink = (uint64_t)recurse(depth);
}

static void on_signal(int number)
{
    (void)number;
    at_bottom();
}

PLACED("code_interrupted") static void interrupted(void)
{
    *no_access = 1;
    sink = sink + 1;
}

void frames_interrupt(int flags, void (*bottom)(void))
{
    const stack_t alternate = {.ss_sp = malloc(ALTERNATE_BYTES), .ss_size = ALTERNATE_BYTES};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};

    at_bottom = bottom;
    no_access = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)sigaltstack(&alternate, NULL);
    (void)sigaction(SIGSEGV, &action, NULL);
    interrupted();
}

static pid_t begin(void)
{
    pid_t pid = fork();

    if (pid == 0)
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

pid_t burner_start(const char *name)
{
    pid_t pid = begin();

    if (pid == 0) {
        (void)prctl(PR_SET_NAME, name);
        burn();
    }
    return pid;
}

void burner_kill(pid_t pid)
{
    if (pid <= 0)
        return;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}
