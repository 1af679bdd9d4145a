/* The I/O of IOR and mdtest, with processes as ranks: `ranks WAY FOLDER RANKS TRANSFER_BYTES COUNT`.
 *   shared    each rank writes COUNT transfers of a segment of one file, then reads the next rank's segment
 *   own       likewise, of a file of each rank
 *   strided   one file; transfers of all ranks alternate in it
 *   metadata  each rank makes COUNT files in a folder of its own, writes TRANSFER_BYTES to each, stats and removes them
 * All ranks begin each phase together. Prints a JSON object: operations, bytes, and the seconds of each phase from the
 * first open to the last close. */
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MAX 64

enum way { WAY_SHARED, WAY_OWN, WAY_STRIDED, WAY_METADATA };
enum phase { PHASE_WRITE, PHASE_READ, PHASES };

static struct shared {
    pthread_barrier_t barrier;
    double first_open[PHASES][RANKS_MAX], last_close[PHASES][RANKS_MAX];
} *shared;

static enum way way;
static const char *folder;
static unsigned ranks, count;
static size_t transfer_bytes;
static char *transfer;

static void fail(const char *what)
{
    fprintf(stderr, "ranks: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static off_t offset_of(unsigned rank, unsigned i)
{
    const unsigned at = way == WAY_STRIDED ? i * ranks + rank : way == WAY_SHARED ? rank * count + i : i;
    return (off_t)at * (off_t)transfer_bytes;
}

static int open_data(unsigned rank, int flags)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/data%u", folder, way == WAY_OWN ? rank : 0);
    const int fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd < 0)
        fail(path);
    return fd;
}

static void transfer_all(unsigned rank, enum phase phase)
{
    const unsigned of = phase == PHASE_READ ? (rank + 1) % ranks : rank;
    shared->first_open[phase][rank] = now();
    const int fd = open_data(of, phase == PHASE_READ ? O_RDONLY : O_WRONLY | O_CREAT);
    for (unsigned i = 0; i < count; i++) {
        const ssize_t n = phase == PHASE_READ ? pread(fd, transfer, transfer_bytes, offset_of(of, i))
                                              : pwrite(fd, transfer, transfer_bytes, offset_of(of, i));
        if (n != (ssize_t)transfer_bytes)
            fail("transfer");
    }
    if (phase == PHASE_WRITE && fsync(fd) < 0)
        fail("fsync");
    close(fd);
    shared->last_close[phase][rank] = now();
}

static void write_file(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, transfer, transfer_bytes) != (ssize_t)transfer_bytes)
        fail(path);
    close(fd);
}

static void make_files(unsigned rank)
{
    char path[4096];
    struct stat status;
    snprintf(path, sizeof(path), "%s/rank%u", folder, rank);
    if (mkdir(path, 0700) < 0)
        fail(path);
    for (unsigned i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/rank%u/file%u", folder, rank, i);
        write_file(path);
        if (stat(path, &status) < 0 || unlink(path) < 0)
            fail(path);
    }
}

static void run_rank(unsigned rank)
{
    pthread_barrier_wait(&shared->barrier);
    if (way == WAY_METADATA) {
        make_files(rank);
        return;
    }
    for (enum phase phase = PHASE_WRITE; phase < PHASES; phase++) {
        transfer_all(rank, phase);
        pthread_barrier_wait(&shared->barrier);
    }
}

static double seconds(enum phase phase)
{
    double first = shared->first_open[phase][0], last = shared->last_close[phase][0];
    for (unsigned i = 1; i < ranks; i++) {
        first = shared->first_open[phase][i] < first ? shared->first_open[phase][i] : first;
        last = shared->last_close[phase][i] > last ? shared->last_close[phase][i] : last;
    }
    return last - first;
}

static void parse(char **argv)
{
    static const char *const ways[] = {"shared", "own", "strided", "metadata"};
    while (strcmp(argv[1], ways[way]) != 0)
        if (++way > WAY_METADATA)
            exit(2);
    folder = argv[2];
    ranks = (unsigned)atoi(argv[3]);
    transfer_bytes = (size_t)atol(argv[4]);
    count = (unsigned)atoi(argv[5]);
    transfer = malloc(transfer_bytes);
    if (!ranks || ranks > RANKS_MAX || !transfer)
        exit(2);
    memset(transfer, 'x', transfer_bytes);
}

static void make_shared(void)
{
    pthread_barrierattr_t attributes;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        fail("mmap");
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attributes, ranks);
}

int main(int argc, char **argv)
{
    int failed = 0, status;
    if (argc != 6)
        return 2;
    parse(argv);
    make_shared();
    for (unsigned rank = 0; rank < ranks; rank++) {
        if (fork() == 0) {
            run_rank(rank);
            _exit(0);
        }
    }
    while (wait(&status) > 0)
        failed |= status;
    printf("{\"operations\": %u, \"bytes\": %zu, \"write_s\": %.9f, \"read_s\": %.9f}\n", ranks * count,
           ranks * count * transfer_bytes, seconds(PHASE_WRITE), seconds(PHASE_READ));
    return failed != 0;
}
