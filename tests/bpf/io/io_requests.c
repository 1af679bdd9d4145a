/* io_uring and Linux AIO by system calls; see io_requests.h. */
#include "io_requests.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

static void *map(int fd, size_t size, off_t offset)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset);
    assert_true(at != MAP_FAILED);
    return at;
}

struct uring uring_begin(unsigned entries, unsigned flags)
{
    struct io_uring_params p = {.flags = flags, .sq_thread_idle = 2000};
    struct uring u = {.polls = flags & IORING_SETUP_SQPOLL};
    u.fd = (int)syscall(SYS_io_uring_setup, entries, &p);
    if (u.fd < 0 && (errno == ENOSYS || errno == EPERM)) {
        print_message("no io_uring here: %s\n", strerror(errno));
        skip();
    }
    assert_true(u.fd >= 0);
    char *submit = map(u.fd, p.sq_off.array + p.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
    char *complete = map(u.fd, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
    u.entries = map(u.fd, p.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
    u.submit_tail = (unsigned *)(submit + p.sq_off.tail);
    u.submit_mask = (unsigned *)(submit + p.sq_off.ring_mask);
    u.submit_flags = (unsigned *)(submit + p.sq_off.flags);
    u.submit_array = (unsigned *)(submit + p.sq_off.array);
    u.complete_head = (unsigned *)(complete + p.cq_off.head);
    u.complete_tail = (unsigned *)(complete + p.cq_off.tail);
    u.complete_mask = (unsigned *)(complete + p.cq_off.ring_mask);
    u.completions = (struct io_uring_cqe *)(complete + p.cq_off.cqes);
    return u;
}

void uring_end(struct uring *u)
{
    close(u->fd); /* the mappings end with the test program */
}

void uring_put(struct uring *u, const struct io_uring_sqe *request)
{
    const unsigned tail = *u->submit_tail, place = tail & *u->submit_mask;
    u->entries[place] = *request;
    u->submit_array[place] = place;
    __atomic_store_n(u->submit_tail, tail + 1, __ATOMIC_RELEASE);
}

void uring_submit(struct uring *u, unsigned count)
{
    if (!u->polls) {
        assert_int_equal(syscall(SYS_io_uring_enter, u->fd, count, 0, 0, NULL, 0), count);
        return;
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(u->submit_flags, __ATOMIC_RELAXED) & IORING_SQ_NEED_WAKEUP)
        assert_true(syscall(SYS_io_uring_enter, u->fd, count, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0) >= 0);
}

int uring_take(struct uring *u)
{
    const unsigned head = *u->complete_head;
    while (__atomic_load_n(u->complete_tail, __ATOMIC_ACQUIRE) == head)
        assert_true(syscall(SYS_io_uring_enter, u->fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) >= 0 || errno == EINTR);
    const int result = u->completions[head & *u->complete_mask].res;
    __atomic_store_n(u->complete_head, head + 1, __ATOMIC_RELEASE);
    return result;
}

/* ---- AIO ---- */

struct aio_event_ring {
    unsigned id, size, head, tail, magic, compatible, incompatible, head_bytes;
    struct io_event events[];
};

aio_context_t aio_begin(unsigned entries)
{
    aio_context_t ring = 0;
    if (syscall(SYS_io_setup, entries, &ring) < 0 && errno == ENOSYS) {
        print_message("no AIO here\n");
        skip();
    }
    assert_true(ring != 0);
    return ring;
}

void aio_end(aio_context_t ring)
{
    assert_int_equal(syscall(SYS_io_destroy, ring), 0);
}

bool aio_take_unseen(aio_context_t ring, struct io_event *ret)
{
    struct aio_event_ring *r = (struct aio_event_ring *)(uintptr_t)ring;
    const unsigned head = r->head;
    if (head == __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE))
        return false;
    *ret = r->events[head];
    __atomic_store_n(&r->head, (head + 1) % r->size, __ATOMIC_RELEASE);
    return true;
}
