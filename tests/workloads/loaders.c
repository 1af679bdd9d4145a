/* Data loaders and their consumer: `loaders WAY FILE LOADERS BATCHES BYTES COMPUTE_US DECODE_US`.
 *   threads          loaders are threads; batches are passed on by a condition variable
 *   pipe, unix, tcp  they are processes
 *   own              the consumer reads itself; LOADERS is 0
 * A loader reads BYTES of FILE for a batch, computes for DECODE_US, and passes the batch on; the main thread takes
 * batches as they come, and computes for COMPUTE_US each. Prints a JSON object: the main thread's ID, how long it
 * waited for batches, and for how long of that the loader that passed the batch on was reading. */
#include "workload.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BATCHES_MAX 100000

static struct {
    const char *way, *file;
    unsigned loaders, batches, bytes, compute_us, decode_us;
} args;

/* Written by the loader of a batch before that is passed on. */
static struct reading {
    double start, end;
} *readings;

static int ends[2]; /* of the pipe or connection: the consumer's, the loaders' */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t is_filled = PTHREAD_COND_INITIALIZER;
static unsigned queue[BATCHES_MAX], queued, taken;

static void fail(const char *what)
{
    fprintf(stderr, "loaders: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void compute(unsigned us)
{
    const double end = now() + us / 1e6;
    while (us && now() < end)
        ;
}

static void connect_tcp(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    ends[1] = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) < 0 ||
        connect(ends[1], (struct sockaddr *)&address, size) < 0)
        fail("tcp");
    ends[0] = accept(listener, NULL, NULL);
    close(listener);
}

static int is_way(const char *way)
{
    return strcmp(args.way, way) == 0;
}

static void read_batch(int fd, char *buffer, unsigned batch)
{
    const off_t size = lseek(fd, 0, SEEK_END);
    readings[batch].start = now();
    if (pread(fd, buffer, args.bytes, (off_t)batch * args.bytes % (size - args.bytes + 1) / 4096 * 4096) !=
        (ssize_t)args.bytes)
        fail("read");
    readings[batch].end = now();
}

static void pass_on(unsigned batch)
{
    if (!is_way("threads")) {
        if (write(ends[1], &batch, sizeof(batch)) != sizeof(batch))
            fail("write");
        return;
    }
    pthread_mutex_lock(&lock);
    queue[queued++] = batch;
    pthread_cond_signal(&is_filled);
    pthread_mutex_unlock(&lock);
}

static void *load(void *number)
{
    const double began = now();
    const int fd = open(args.file, O_RDONLY | O_CLOEXEC);
    char *buffer = aligned_alloc(4096, args.bytes);
    if (fd < 0 || !buffer)
        fail(args.file);
    for (unsigned batch = (unsigned)(size_t)number; batch < args.batches; batch += args.loaders) {
        read_batch(fd, buffer, batch);
        if (batch == (unsigned)(size_t)number)
            readings[batch].start = began; /* with the time to open the file */
        compute(args.decode_us);
        pass_on(batch);
    }
    close(fd);
    free(buffer);
    return NULL;
}

static void start_loader(unsigned number)
{
    pthread_t thread;
    if (is_way("threads")) {
        pthread_create(&thread, NULL, load, (void *)(size_t)number);
        pthread_detach(thread);
    } else if (fork() == 0) {
        load((void *)(size_t)number);
        _exit(0);
    }
}

static unsigned take(void)
{
    unsigned batch;
    if (!is_way("threads")) {
        if (read(ends[0], &batch, sizeof(batch)) != sizeof(batch))
            fail("read");
        return batch;
    }
    pthread_mutex_lock(&lock);
    while (taken == queued)
        pthread_cond_wait(&is_filled, &lock);
    batch = queue[taken++];
    pthread_mutex_unlock(&lock);
    return batch;
}

int main(int argc, char **argv)
{
    double waited = 0, for_reads = 0;
    if (argc != 8)
        return 2;
    args = (__typeof__(args)){argv[1],
                              argv[2],
                              (unsigned)atoi(argv[3]),
                              (unsigned)atoi(argv[4]),
                              (unsigned)atoi(argv[5]),
                              (unsigned)atoi(argv[6]),
                              (unsigned)atoi(argv[7])};
    if (args.batches > BATCHES_MAX)
        return 2;
    readings = mmap(NULL, args.batches * sizeof(*readings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (is_way("pipe") && pipe(ends) < 0)
        fail("pipe");
    if (is_way("unix") && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
        fail("socketpair");
    if (is_way("tcp"))
        connect_tcp();
    const int own = args.loaders ? -1 : open(args.file, O_RDONLY);
    char *buffer = aligned_alloc(4096, args.bytes);
    for (unsigned i = 0; i < args.loaders; i++)
        start_loader(i);
    const double start = now();
    for (unsigned i = 0; i < args.batches; i++) {
        const double asked = now();
        if (own >= 0)
            read_batch(own, buffer, i);
        const unsigned batch = own >= 0 ? i : take();
        const double got = now(), begin = readings[batch].start > asked ? readings[batch].start : asked;
        waited += got - asked;
        if (own < 0 && readings[batch].end > begin)
            for_reads += readings[batch].end - begin;
        compute(args.compute_us);
    }
    printf("{\"thread\": %d, \"waited_s\": %.6f, \"for_reads_s\": %.6f, \"lasted_s\": %.6f}\n", getpid(), waited,
           for_reads, now() - start);
    while (wait(NULL) > 0)
        ;
    return 0;
}
