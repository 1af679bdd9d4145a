/* The command line: finds the verb and runs it. Exit status: 0 done, 1 could not be done, 2 wrongly asked. */
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

const struct verb *const verbs[] = {
    &subcommand_up,    &subcommand_agent,  &subcommand_record, &subcommand_diff,   &subcommand_why,
    &subcommand_trace, &subcommand_probes, &subcommand_bpf,    &subcommand_doctor, NULL};

static void print_usage(FILE *f)
{
    fprintf(
        f,
        "Usage: sonde VERB [OPTIONS]\n\nAnswers why a request or a job was slow, from the kernel up, without touching what it watches.\n\n");
    for (const struct verb *const *v = verbs; *v; v++)
        fprintf(f, "  %-8s %s\n", (*v)->name, (*v)->summary);
    fprintf(f, "\n`sonde VERB --help` tells more. `sonde --version` prints %s.\n", SONDE_VERSION);
}

/* A file that we open must not become what a message or a profile is written to. What was closed stays useless:
 * to read or to write there is an error, as it was. */
static void have_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", fcntl(STDIN_FILENO, F_GETFD) < 0 ? O_WRONLY : O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* Left to itself, the allocator keeps in its heaps what it once had to map, up to 32 MiB: what the unwinding rows of
 * one large library were made of would count as ours from then on. */
static void give_large_blocks_back(void)
{
    mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES);
}

int main(int argc, char **argv)
{
    have_standard_descriptors();
    give_large_blocks_back();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe or connection is an error of that write */
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
    for (const struct verb *const *v = verbs; *v; v++)
        if (strcmp(name, (*v)->name) == 0) {
            int r = (*v)->run(argc - 1, argv + 1);
            return r >= 0 ? r : r == -EINVAL ? 2 : 1;
        }
    log_error("there is no verb '%s' (sonde --help lists them)", name);
    return 2;
}
