/* See link_table.h. Reads entries by bucket, so that threads that come and go meanwhile do not hide others. */
#include "sources/link/link_table.h"

#include "base/cleanup.h"
#include "base/clock.h"

#include <bpf/bpf.h>

#include <linux/types.h>

#include "probes/link.h"

#include <errno.h>
#include <stdlib.h>

#define BATCH_ENTRIES 512 /* far more than any bucket holds */

struct batch_of_entries {
    uint32_t keys[BATCH_ENTRIES];
    struct thread_link links[BATCH_ENTRIES];
};

typedef int entry_take(void *context, uint32_t tid, const struct thread_link *link);

/* Calls `take` for each entry. Returns the sum of its positive results, or the first error. */
static int64_t for_each_entry(int table_fd, entry_take *take, void *context)
{
    _cleanup_free_ struct batch_of_entries *b = calloc(1, sizeof(*b));
    uint32_t position;
    int64_t sum = 0;
    if (!b)
        return -ENOMEM;
    for (bool begun = false, more = true; more; begun = true) {
        uint32_t count = BATCH_ENTRIES;
        int r = bpf_map_lookup_batch(table_fd, begun ? &position : NULL, &position, b->keys, b->links, &count, NULL);
        more = r == 0;
        if (r < 0 && r != -ENOENT) /* -ENOENT is the end */
            return r;
        for (uint32_t i = 0; i < count; i++) {
            r = b->keys[i] == LINK_EPOCH_KEY ? 0 : take(context, b->keys[i], &b->links[i]);
            if (r < 0)
                return r;
            sum += r;
        }
    }
    return sum;
}

/* ---- all ---- */

static int is_working(void *context, uint32_t tid, const struct thread_link *link)
{
    const uint64_t *epoch = context;
    (void)tid;
    return *epoch && link->epoch == *epoch && link->working;
}

int link_table_forget_all(int table_fd, bool for_good, uint64_t *ret_count)
{
    const uint32_t key = LINK_EPOCH_KEY;
    struct thread_link entry = {0};
    (void)bpf_map_lookup_elem(table_fd, &key, &entry); /* missing on the first call */
    const int64_t count = for_each_entry(table_fd, is_working, &entry.epoch);
    entry = (struct thread_link){.epoch = for_good ? 0 : clock_monotonic_ns()};
    if (bpf_map_update_elem(table_fd, &key, &entry, BPF_ANY) < 0)
        return -errno;
    *ret_count = count < 0 ? 0 : (uint64_t)count;
    return 0;
}

/* ---- one process ---- */

struct forget_context {
    int program_fd;
    uint32_t pid;
};

static int forget_thread(void *context, uint32_t tid, const struct thread_link *link)
{
    const struct forget_context *f = context;
    struct link_forget which = {.tid = tid, .pid = f->pid};
    LIBBPF_OPTS(bpf_test_run_opts, run, .ctx_in = &which, .ctx_size_in = sizeof(which));
    if (link->pid != f->pid)
        return 0;
    const int r = bpf_prog_test_run_opts(f->program_fd, &run);
    return r < 0 ? r : (int)run.retval;
}

int link_table_forget_process(int table_fd, int program_fd, uint32_t pid, uint64_t *ret_count)
{
    const int64_t count = for_each_entry(table_fd, forget_thread, &(struct forget_context){program_fd, pid});
    if (count < 0)
        return (int)count;
    *ret_count = (uint64_t)count;
    return 0;
}

/* ---- room ---- */

void link_table_clear(int table_fd)
{
    uint32_t key, next;
    bool more = bpf_map_get_next_key(table_fd, NULL, &next) == 0;
    while (more) {
        key = next;
        more = bpf_map_get_next_key(table_fd, &key, &next) == 0;
        if (key != LINK_EPOCH_KEY)
            bpf_map_delete_elem(table_fd, &key);
    }
}
