/* One access of each form to a memory file; see io_selftest.h. Memory files lie on a mount of their own that no
 * program sees, whose counters are compared before and after. Other programs may use it meanwhile: their operations
 * can hide one that is missing, but none that is counted. */
#include "sources/io/io_selftest.h"

#include "sources/io/io.h"
#include "sources/io/io_counters.h"

#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct counting {
    void *source;
    uint8_t operation;
    uint64_t count;
};

static bool keep(void *context, const struct io_key *key, const struct io_counters *counters)
{
    (void)context, (void)key, (void)counters;
    return false;
}

static void add(void *context, const struct io_key *key, const struct io_counters *counters, bool is_final)
{
    struct counting *c = context;
    struct io_name name;
    (void)is_final;
    if (key->operation != c->operation || !io_source_mount(c->source, key->mount, &name) || !name.is_hidden)
        return;
    c->count += io_counters_operations(counters);
}

static uint64_t count_operations(void *source, uint8_t operation)
{
    struct counting c = {.source = source, .operation = operation};
    const struct io_reader reader = {.context = &c, .is_final = keep, .take = add};
    (void)io_source_read(source, &reader);
    return c.count;
}

static bool write_once(int fd)
{
    return write(fd, "x", 1) == 1;
}

static bool writev_once(int fd)
{
    char byte = 'x';
    return writev(fd, &(const struct iovec){&byte, 1}, 1) == 1;
}

/* Without looking at the completion: it is there when the call returns, as a memory file does not wait. */
static bool uring_once(int fd)
{
    struct io_uring_params p = {0};
    const int ring = (int)syscall(SYS_io_uring_setup, 1, &p);
    bool is_done = false;
    if (ring < 0)
        return false;
    const size_t queue_bytes = p.sq_off.array + sizeof(unsigned);
    char *queue = mmap(NULL, queue_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entry = mmap(NULL, sizeof(*entry), PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    if (queue != MAP_FAILED && (void *)entry != MAP_FAILED) {
        *entry = (struct io_uring_sqe){.opcode = IORING_OP_WRITE, .fd = fd, .addr = (uintptr_t) "x", .len = 1};
        *(unsigned *)(queue + p.sq_off.array) = 0;
        *(unsigned *)(queue + p.sq_off.tail) = 1;
        is_done = syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1;
    }
    if (queue != MAP_FAILED)
        munmap(queue, queue_bytes);
    if ((void *)entry != MAP_FAILED)
        munmap(entry, sizeof(*entry));
    close(ring);
    return is_done;
}

/* The page must be there: a fault that allocates it is not seen on memory files. */
static bool mmap_once(int fd)
{
    volatile const char *page;
    if (pwrite(fd, "x", 1, 0) != 1)
        return false;
    page = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return false;
    const bool is_done = *page == 'x';
    munmap((void *)page, 1);
    return is_done;
}

void io_selftest(void *io_source, bool with_pages, char *ret, size_t size)
{
    static const struct {
        const char *name;
        uint8_t operation;
        bool (*once)(int fd);
    } forms[] = {{"write", IO_WRITE, write_once},
                 {"writev", IO_WRITE, writev_once},
                 {"io_uring", IO_WRITE, uring_once},
                 {"mmap", IO_MAP, mmap_once}};
    const int fd = memfd_create("sonde-io-test", MFD_CLOEXEC);
    size_t length = 0;
    ret[0] = '\0';
    if (fd < 0)
        return;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (forms[i].operation == IO_MAP && !with_pages)
            continue;
        const uint64_t before = count_operations(io_source, forms[i].operation);
        if (forms[i].once(fd) && count_operations(io_source, forms[i].operation) == before && length < size)
            length += (size_t)snprintf(ret + length, size - length, "%s%s", length ? ", " : "", forms[i].name);
    }
    close(fd);
}
