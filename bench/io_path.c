/* What system calls take, in nanoseconds: the least of many rounds, as what else runs on the machine only adds. Prints
 * one line: "getppid 108 read 236 ...". For bench/io_cost, which runs it with and without an observer. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 15
#define CALLS  100000

static char buffer[65536];

struct subject {
    const char *path;
    int fd;
};

static void no_io(const struct subject *s)
{
    (void)s;
    syscall(SYS_getppid);
}

static void read_4k(const struct subject *s)
{
    if (pread(s->fd, buffer, 4096, 0) != 4096)
        abort();
}

static void write_4k(const struct subject *s)
{
    if (pwrite(s->fd, buffer, 4096, 0) != 4096)
        abort();
}

static void read_64k(const struct subject *s)
{
    if (pread(s->fd, buffer, 65536, 0) != 65536)
        abort();
}

static void open_close(const struct subject *s)
{
    close(open(s->path, O_RDONLY));
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*call)(const struct subject *);
    } calls[] = {{"getppid", no_io},
                 {"read-4k", read_4k},
                 {"write-4k", write_4k},
                 {"read-64k", read_64k},
                 {"open-close", open_close}};
    struct subject subject = {.path = argc > 1 ? argv[1] : "io-path-data"};
    subject.fd = open(subject.path, O_RDWR | O_CREAT, 0600);
    if (subject.fd < 0 || pwrite(subject.fd, buffer, sizeof(buffer), 0) != sizeof(buffer))
        return 1;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        double least = 1e18;
        for (int round = 0; round < ROUNDS; round++) {
            const double start = now_ns();
            for (int k = 0; k < CALLS; k++)
                calls[i].call(&subject);
            const double each = (now_ns() - start) / CALLS;
            least = each < least ? each : least;
        }
        printf("%s %.1f ", calls[i].name, least);
    }
    printf("\n");
    return 0;
}
