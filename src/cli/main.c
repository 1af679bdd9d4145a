/* Entry point: finds the subcommand and runs it. Exit status: 0 success, 1 failure, 2 usage error. */
#include "base/log.h"
#include "cli/subcommands.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LARGE_BLOCK_BYTES (128 << 10)

const struct subcommand *const subcommands[] = {&subcommand_up,
                                                &subcommand_agent,
                                                &subcommand_record,
                                                &subcommand_diff,
                                                &subcommand_why,
                                                &subcommand_requests,
                                                &subcommand_calls,
                                                &subcommand_events,
                                                &subcommand_io,
                                                &subcommand_memory,
                                                &subcommand_gpu,
                                                &subcommand_trace,
                                                &subcommand_probes,
                                                &subcommand_bpf,
                                                &subcommand_server,
                                                &subcommand_token,
                                                &subcommand_doctor,
                                                &subcommand_version,
                                                NULL};

static void print_usage(FILE *f)
{
    fprintf(
        f,
        "Usage: sonde SUBCOMMAND [OPTIONS]\n\nAnswers why a request or a job was slow, from the kernel up, without modifying the programs it observes.\n\n");
    for (const struct subcommand *const *v = subcommands; *v; v++)
        fprintf(f, "  %-8s %s\n", (*v)->name, (*v)->summary);
    fprintf(f, "\n`sonde SUBCOMMAND --help` describes it. `sonde --version` prints %s.\n", SONDE_VERSION);
}

/* Opens descriptors 0 to 2 if the caller closed them, so that no file opened later takes their place and receives
 * messages or a profile. Stdin is opened write-only and the others read-only: their use still fails. */
static void open_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", fcntl(STDIN_FILENO, F_GETFD) < 0 ? O_WRONLY : O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* glibc raises its mmap threshold up to 32 MiB after a large block is freed, and keeps such memory in its heaps from
 * then on. A fixed threshold returns the buffers used to build the unwind table of a large library. */
static void limit_heap_blocks(void)
{
    mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES);
}

int main(int argc, char **argv)
{
    open_standard_descriptors();
    limit_heap_blocks();
    signal(SIGPIPE, SIG_IGN); /* writing to a closed pipe or connection fails with EPIPE */
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_usage(stdout);
        return 0;
    }
    if (strcmp(name, "--version") == 0) {
        printf("sonde %s\n", SONDE_VERSION);
        return 0;
    }
    for (const struct subcommand *const *v = subcommands; *v; v++)
        if (strcmp(name, (*v)->name) == 0) {
            int r = (*v)->run(argc - 1, argv + 1);
            return r >= 0 ? r : r == -EINVAL ? 2 : 1;
        }
    log_error("unknown subcommand '%s' (sonde --help lists them)", name);
    return 2;
}
