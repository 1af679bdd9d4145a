/* See target_table.h. What the table should hold is made anew at each look, in the order of the targets; of two that ask for the same cgroup
 * the first stays. */
#include "sources/sampling/target_table.h"

#include "base/clock.h"
#include "base/user_name.h"
#include "sources/sampling/cgroup_search.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_EVERY_NS 5000000000ULL
#define CGROUPS_MAX   256 /* of one target */

struct row {
    struct target_key key;
    uint32_t target;
    uint32_t reserved; /* no gap: rows are compared by their bytes */
};

struct rows {
    struct row list[TARGET_KEYS_MAX];
    size_t count;
};

struct target_table {
    struct targets targets;
    int keys_fd, counts_fd;
    int cpu_count; /* possible */
    int processes[TARGETS_MAX]; /* pidfds; -1: none */
    int64_t users[TARGETS_MAX]; /* -1: unknown */
    bool found[TARGETS_MAX];
    struct rows now, next; /* what the kernel has, and what it should have */
    struct target_pod pods[TARGET_PODS_MAX]; /* by their names and labels */
    size_t pod_count;
    size_t left_out;       /* of next, for want of room */
    uint64_t most_left_out;
    bool is_incomplete;    /* it could not be told all of it */
    uint64_t looked_ns;
};

void target_table_free(struct target_table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < TARGETS_MAX; i++)
        if (t->processes[i] >= 0)
            close(t->processes[i]);
    free(t);
}

static const struct row *find_row(const struct rows *rows, const struct target_key *key)
{
    for (size_t i = 0; i < rows->count; i++)
        if (memcmp(&rows->list[i].key, key, sizeof(*key)) == 0)
            return &rows->list[i];
    return NULL;
}

static void add_key(struct target_table *t, struct target_key key, size_t target)
{
    t->found[target] = true;
    if (find_row(&t->next, &key))
        return;
    if (t->next.count == TARGET_KEYS_MAX)
        t->left_out++;
    else
        t->next.list[t->next.count++] = (struct row){.key = key, .target = (uint32_t)target};
}

static void add_number(struct target_table *t, enum target_key_kind kind, uint64_t number, size_t target)
{
    struct target_key key = {.kind = kind};
    key.number = number;
    add_key(t, key, target);
}

static void add_command(struct target_table *t, size_t target)
{
    const char *name = t->targets.list[target].value;
    struct target_key key = {.kind = TARGET_KEY_COMMAND};
    memcpy(key.name, name, strnlen(name, sizeof(key.name) - 1)); /* the kernel cuts them there, too */
    add_key(t, key, target);
}

static void add_path(struct target_table *t, size_t target)
{
    uint64_t id;
    if (cgroup_search_path(t->targets.list[target].value, &id) == 0)
        add_number(t, TARGET_KEY_CGROUP, id, target);
}

/* What containers and pods have, in one walk over the tree for all of them. */
struct searched {
    struct cgroup_wanted wanted[TARGETS_MAX + TARGET_PODS_MAX];
    uint32_t target[TARGETS_MAX + TARGET_PODS_MAX];
    size_t count;
    uint64_t ids[TARGETS_MAX][CGROUPS_MAX]; /* by target */
    size_t id_count[TARGETS_MAX];
};

static void want(struct searched *s, enum cgroup_kind kind, const char *text, uint32_t target)
{
    s->wanted[s->count] = (struct cgroup_wanted){kind, text};
    s->target[s->count++] = target;
}

static void take_cgroup(void *context, size_t wanted, uint64_t id)
{
    struct searched *s = context;
    const uint32_t target = s->target[wanted];
    if (s->id_count[target] < CGROUPS_MAX)
        s->ids[target][s->id_count[target]++] = id;
}

/* NULL: none is to be looked for, or there is no memory to. */
static struct searched *search_cgroups(const struct target_table *t)
{
    _cleanup_free_ struct searched *s = calloc(1, sizeof(*s));
    for (uint32_t i = 0; s && i < t->targets.count; i++)
        if (t->targets.list[i].selector == TARGET_CONTAINER || t->targets.list[i].selector == TARGET_POD)
            want(s, t->targets.list[i].selector == TARGET_POD ? CGROUP_OF_POD : CGROUP_OF_CONTAINER, t->targets.list[i].value, i);
    for (size_t i = 0; s && i < t->pod_count; i++)
        want(s, CGROUP_OF_POD, t->pods[i].uid, t->pods[i].target);
    if (!s || !s->count)
        return NULL;
    (void)cgroup_search(s->wanted, s->count, take_cgroup, s);
    return take_ptr(s);
}

/* Its number may long be another's when it has ended. */
static bool is_alive(int process)
{
    struct pollfd p = {.fd = process, .events = POLLIN};
    return process >= 0 && poll(&p, 1, 0) == 0;
}

static void find_all(struct target_table *t)
{
    _cleanup_free_ struct searched *searched = search_cgroups(t);
    t->next.count = t->left_out = 0;
    memset(t->found, 0, sizeof(t->found));
    for (size_t i = 0; i < t->targets.count; i++)
        switch (t->targets.list[i].selector) {
        case TARGET_PID:
            if (is_alive(t->processes[i]))
                add_number(t, TARGET_KEY_PID, strtoul(t->targets.list[i].value, NULL, 10), i);
            break;
        case TARGET_USER:
            if (t->users[i] >= 0)
                add_number(t, TARGET_KEY_USER, (uint64_t)t->users[i], i);
            break;
        case TARGET_COMMAND:
            add_command(t, i);
            break;
        case TARGET_CGROUP:
            add_path(t, i);
            break;
        case TARGET_CONTAINER:
        case TARGET_POD:
        case TARGET_POD_NAME:
        case TARGET_POD_LABEL:
            for (size_t k = 0; searched && k < searched->id_count[i]; k++)
                add_number(t, TARGET_KEY_CGROUP, searched->ids[i][k], i);
            break;
        case TARGET_SELECTOR_COUNT:
            break;
        }
}

/* What has gone first: then there is room. */
static int tell_kernel(struct target_table *t)
{
    int r = 0;
    for (size_t i = 0; i < t->now.count; i++)
        if (!find_row(&t->next, &t->now.list[i].key))
            (void)bpf_map_delete_elem(t->keys_fd, &t->now.list[i].key);
    for (size_t i = 0; i < t->next.count && r == 0; i++)
        r = bpf_map_update_elem(t->keys_fd, &t->next.list[i].key, &t->next.list[i].target, BPF_ANY);
    return r;
}

static int look(struct target_table *t)
{
    find_all(t);
    if (t->left_out > t->most_left_out)
        t->most_left_out = t->left_out;
    if (!t->is_incomplete && t->now.count == t->next.count && memcmp(t->now.list, t->next.list, t->next.count * sizeof(t->next.list[0])) == 0)
        return 0;
    int r = tell_kernel(t);
    t->now = t->next;
    t->is_incomplete = r < 0;
    return r;
}

int target_table_new(const struct targets *targets, int target_keys_fd, int target_counts_fd, struct target_table **ret)
{
    _cleanup_(target_table_freep) struct target_table *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    t->targets = *targets;
    t->keys_fd = target_keys_fd;
    t->counts_fd = target_counts_fd;
    memset(t->processes, -1, sizeof(t->processes));
    for (size_t i = 0; i < targets->count; i++) {
        const struct target *target = &targets->list[i];
        uint32_t user;
        if (target->selector == TARGET_PID)
            t->processes[i] = (int)syscall(SYS_pidfd_open, (pid_t)strtoul(target->value, NULL, 10), 0);
        t->users[i] = target->selector == TARGET_USER && user_name_parse(target->value, &user) == 0 ? (int64_t)user : -1;
    }
    t->cpu_count = libbpf_num_possible_cpus();
    t->looked_ns = clock_monotonic_ns();
    int r = t->cpu_count > 0 ? look(t) : -ENODEV;
    if (r < 0)
        return r;
    *ret = take_ptr(t);
    return 0;
}

void target_table_follow(struct target_table *t, uint64_t now_ns)
{
    if (now_ns - t->looked_ns < LOOK_EVERY_NS)
        return;
    t->looked_ns = now_ns;
    (void)look(t); /* what could not be told is told at the next */
}

void target_table_set_pods(struct target_table *t, const struct target_pod *pods, size_t count)
{
    count = count < TARGET_PODS_MAX ? count : TARGET_PODS_MAX;
    if (count == t->pod_count && memcmp(t->pods, pods, count * sizeof(*pods)) == 0)
        return;
    t->pod_count = count;
    memcpy(t->pods, pods, count * sizeof(*pods));
    (void)look(t);
}

uint64_t target_table_left_out(const struct target_table *t)
{
    return t->most_left_out;
}

struct target_figures target_table_figures(const struct target_table *t, uint32_t number)
{
    struct target_figures sum = {.found = number == TARGETS_MAX || t->found[number]};
    _cleanup_free_ struct target_count *counts = calloc((size_t)t->cpu_count, sizeof(*counts));
    if (!counts || bpf_map_lookup_elem(t->counts_fd, &number, counts) < 0)
        return sum;
    for (int i = 0; i < t->cpu_count; i++) {
        sum.ticks += counts[i].ticks;
        sum.samples += counts[i].samples;
    }
    return sum;
}

uint32_t target_table_kinds(const struct targets *targets)
{
    static const enum target_key_kind kinds[TARGET_SELECTOR_COUNT] = {
        [TARGET_PID] = TARGET_KEY_PID,       [TARGET_CGROUP] = TARGET_KEY_CGROUP,   [TARGET_CONTAINER] = TARGET_KEY_CGROUP,
        [TARGET_POD] = TARGET_KEY_CGROUP,    [TARGET_POD_NAME] = TARGET_KEY_CGROUP, [TARGET_POD_LABEL] = TARGET_KEY_CGROUP,
        [TARGET_COMMAND] = TARGET_KEY_COMMAND, [TARGET_USER] = TARGET_KEY_USER,
    };
    uint32_t bits = 0;
    for (size_t i = 0; i < targets->count; i++)
        bits |= 1u << kinds[targets->list[i].selector];
    return bits;
}
