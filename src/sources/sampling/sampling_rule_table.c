/* See sampling_rule_table.h. Each refresh builds the desired contents from scratch, in the order of the rules; if two
 * rules match the same cgroup, the first one keeps it. */
#include "sources/sampling/sampling_rule_table.h"

#include "base/clock.h"
#include "base/user_name.h"
#include "sources/sampling/cgroup_search.h"

#include <assert.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REFRESH_NS  5000000000ULL
#define CGROUPS_MAX 256 /* of one rule */

struct row {
    struct sampling_rule_key key;
    uint32_t rule;
    uint32_t reserved; /* no padding: rows are compared bytewise */
};

struct rows {
    struct row list[SAMPLING_RULE_KEYS_MAX];
    size_t count;
};

struct sampling_rule_table {
    struct sampling_rules rules;
    int keys_fd, counts_fd;
    int cpu_count;                     /* possible */
    int processes[SAMPLING_RULES_MAX]; /* pidfds; -1: none */
    int64_t users[SAMPLING_RULES_MAX]; /* user IDs; -1: unknown */
    bool found[SAMPLING_RULES_MAX];
    struct rows now, next;                       /* the kernel's keys, and the wanted ones */
    struct sampling_pod pods[SAMPLING_PODS_MAX]; /* of rules by pod name or label */
    size_t pod_count;
    size_t left_out; /* keys of `next` that did not fit */
    uint64_t most_left_out;
    bool is_incomplete; /* the last update of the kernel map failed */
    uint64_t refreshed_ns;
};

void sampling_rule_table_free(struct sampling_rule_table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < SAMPLING_RULES_MAX; i++)
        if (t->processes[i] >= 0)
            close(t->processes[i]);
    free(t);
}

static const struct row *find_row(const struct rows *rows, const struct sampling_rule_key *key)
{
    for (size_t i = 0; i < rows->count; i++)
        if (memcmp(&rows->list[i].key, key, sizeof(*key)) == 0)
            return &rows->list[i];
    return NULL;
}

static void add_key(struct sampling_rule_table *t, struct sampling_rule_key key, size_t rule)
{
    t->found[rule] = true;
    if (find_row(&t->next, &key))
        return;
    if (t->next.count == SAMPLING_RULE_KEYS_MAX)
        t->left_out++;
    else
        t->next.list[t->next.count++] = (struct row){.key = key, .rule = (uint32_t)rule};
}

static void add_number(struct sampling_rule_table *t, enum sampling_rule_key_kind kind, uint64_t number, size_t rule)
{
    struct sampling_rule_key key = {.kind = kind};
    key.number = number;
    add_key(t, key, rule);
}

static void add_command(struct sampling_rule_table *t, size_t rule)
{
    const char *name = t->rules.list[rule].value;
    struct sampling_rule_key key = {.kind = SAMPLING_RULE_KEY_COMMAND};
    memcpy(key.name, name, strnlen(name, sizeof(key.name) - 1)); /* truncated as in the kernel */
    add_key(t, key, rule);
}

static void add_path(struct sampling_rule_table *t, size_t rule)
{
    uint64_t id;
    if (cgroup_search_path(t->rules.list[rule].value, &id) == 0)
        add_number(t, SAMPLING_RULE_KEY_CGROUP, id, rule);
}

/* The cgroups of all containers and pods, found in one walk over the tree. */
struct cgroup_matches {
    struct cgroup_wanted wanted[SAMPLING_RULES_MAX + SAMPLING_PODS_MAX];
    uint32_t rule[SAMPLING_RULES_MAX + SAMPLING_PODS_MAX];
    size_t count;
    uint64_t ids[SAMPLING_RULES_MAX][CGROUPS_MAX]; /* by rule */
    size_t id_count[SAMPLING_RULES_MAX];
};

static void add_wanted(struct cgroup_matches *s, enum cgroup_kind kind, const char *text, uint32_t rule)
{
    s->wanted[s->count] = (struct cgroup_wanted){kind, text};
    s->rule[s->count++] = rule;
}

static void take_cgroup(void *context, size_t wanted, uint64_t id)
{
    struct cgroup_matches *s = context;
    const uint32_t rule = s->rule[wanted];
    if (s->id_count[rule] < CGROUPS_MAX)
        s->ids[rule][s->id_count[rule]++] = id;
}

/* NULL: there is nothing to search for, or no memory. */
static struct cgroup_matches *search_cgroups(const struct sampling_rule_table *t)
{
    _cleanup_free_ struct cgroup_matches *s = calloc(1, sizeof(*s));
    for (uint32_t i = 0; s && i < t->rules.count; i++)
        if (t->rules.list[i].selector == SAMPLING_RULE_CONTAINER || t->rules.list[i].selector == SAMPLING_RULE_POD)
            add_wanted(s, t->rules.list[i].selector == SAMPLING_RULE_POD ? CGROUP_OF_POD : CGROUP_OF_CONTAINER,
                       t->rules.list[i].value, i);
    for (size_t i = 0; s && i < t->pod_count; i++)
        add_wanted(s, CGROUP_OF_POD, t->pods[i].uid, t->pods[i].rule);
    if (!s || !s->count)
        return NULL;
    (void)cgroup_search(s->wanted, s->count, take_cgroup, s);
    return take_ptr(s);
}

/* A pidfd shows whether the process still exists; its number may have been reused. */
static bool is_alive(int process)
{
    struct pollfd p = {.fd = process, .events = POLLIN};
    return process >= 0 && poll(&p, 1, 0) == 0;
}

static void resolve_rules(struct sampling_rule_table *t)
{
    _cleanup_free_ struct cgroup_matches *cgroup_matches = search_cgroups(t);
    t->next.count = t->left_out = 0;
    memset(t->found, 0, sizeof(t->found));
    for (size_t i = 0; i < t->rules.count; i++)
        switch (t->rules.list[i].selector) {
        case SAMPLING_RULE_PID:
            if (is_alive(t->processes[i]))
                add_number(t, SAMPLING_RULE_KEY_PID, strtoul(t->rules.list[i].value, NULL, 10), i);
            break;
        case SAMPLING_RULE_USER:
            if (t->users[i] >= 0)
                add_number(t, SAMPLING_RULE_KEY_USER, (uint64_t)t->users[i], i);
            break;
        case SAMPLING_RULE_COMMAND:
            add_command(t, i);
            break;
        case SAMPLING_RULE_CGROUP:
            add_path(t, i);
            break;
        case SAMPLING_RULE_CONTAINER:
        case SAMPLING_RULE_POD:
        case SAMPLING_RULE_POD_NAME:
        case SAMPLING_RULE_POD_LABEL:
            for (size_t k = 0; cgroup_matches && k < cgroup_matches->id_count[i]; k++)
                add_number(t, SAMPLING_RULE_KEY_CGROUP, cgroup_matches->ids[i][k], i);
            break;
        case SAMPLING_RULE_SELECTOR_COUNT:
            break;
        }
}

/* Removes obsolete keys first, to make room. */
static int update_kernel_map(struct sampling_rule_table *t)
{
    int r = 0;
    for (size_t i = 0; i < t->now.count; i++)
        if (!find_row(&t->next, &t->now.list[i].key))
            (void)bpf_map_delete_elem(t->keys_fd, &t->now.list[i].key);
    for (size_t i = 0; i < t->next.count && r == 0; i++)
        r = bpf_map_update_elem(t->keys_fd, &t->next.list[i].key, &t->next.list[i].rule, BPF_ANY);
    return r;
}

static int refresh(struct sampling_rule_table *t)
{
    resolve_rules(t);
    if (t->left_out > t->most_left_out)
        t->most_left_out = t->left_out;
    if (!t->is_incomplete && t->now.count == t->next.count &&
        memcmp(t->now.list, t->next.list, t->next.count * sizeof(t->next.list[0])) == 0)
        return 0;
    int r = update_kernel_map(t);
    t->now = t->next;
    t->is_incomplete = r < 0;
    return r;
}

/* Finds what a rule means once: a PID is the process that has it now, users are not looked up again. */
static void set_rules(struct sampling_rule_table *t, const struct sampling_rules *rules)
{
    t->rules = *rules;
    t->pod_count = 0; /* by the numbers of other rules */
    for (size_t i = 0; i < SAMPLING_RULES_MAX; i++) {
        const struct sampling_rule *rule = &rules->list[i];
        uint32_t user;
        closep(&t->processes[i]);
        t->processes[i] = -1;
        t->users[i] = -1;
        if (i < rules->count && rule->selector == SAMPLING_RULE_PID)
            t->processes[i] = (int)syscall(SYS_pidfd_open, (pid_t)strtoul(rule->value, NULL, 10), 0);
        if (i < rules->count && rule->selector == SAMPLING_RULE_USER && user_name_parse(rule->value, &user) == 0)
            t->users[i] = (int64_t)user;
    }
}

int sampling_rule_table_new(const struct sampling_rules *rules, int sampling_rule_keys_fd, int sampling_rule_counts_fd,
                            struct sampling_rule_table **ret)
{
    _cleanup_(sampling_rule_table_freep) struct sampling_rule_table *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    t->keys_fd = sampling_rule_keys_fd;
    t->counts_fd = sampling_rule_counts_fd;
    memset(t->processes, -1, sizeof(t->processes));
    set_rules(t, rules);
    t->cpu_count = libbpf_num_possible_cpus();
    t->refreshed_ns = clock_monotonic_ns();
    int r = t->cpu_count > 0 ? refresh(t) : -ENODEV;
    if (r < 0)
        return r;
    *ret = take_ptr(t);
    return 0;
}

/* Rules that have another number from now on must not inherit its counts. */
static void clear_counts(struct sampling_rule_table *t)
{
    _cleanup_free_ struct sampling_rule_count *zeros = calloc((size_t)t->cpu_count, sizeof(*zeros));
    for (uint32_t i = 0; zeros && i <= SAMPLING_RULES_MAX; i++)
        (void)bpf_map_update_elem(t->counts_fd, &i, zeros, BPF_ANY);
}

void sampling_rule_table_replace(struct sampling_rule_table *t, const struct sampling_rules *rules)
{
    set_rules(t, rules);
    clear_counts(t);
    t->refreshed_ns = clock_monotonic_ns();
    (void)refresh(t);
}

void sampling_rule_table_follow(struct sampling_rule_table *t, uint64_t now_ns)
{
    if (now_ns - t->refreshed_ns < REFRESH_NS)
        return;
    t->refreshed_ns = now_ns;
    (void)refresh(t); /* a failed update is repeated at the next refresh */
}

void sampling_rule_table_set_pods(struct sampling_rule_table *t, const struct sampling_pod *pods, size_t count)
{
    count = count < SAMPLING_PODS_MAX ? count : SAMPLING_PODS_MAX;
    if (count == t->pod_count && memcmp(t->pods, pods, count * sizeof(*pods)) == 0)
        return;
    t->pod_count = count;
    memcpy(t->pods, pods, count * sizeof(*pods));
    (void)refresh(t);
}

uint64_t sampling_rule_table_left_out(const struct sampling_rule_table *t)
{
    return t->most_left_out;
}

struct sampling_rule_stats sampling_rule_table_stats(const struct sampling_rule_table *t, uint32_t number)
{
    assert(number < t->rules.count || number == SAMPLING_RULES_MAX);
    struct sampling_rule_stats sum = {.found = number == SAMPLING_RULES_MAX || t->found[number]};
    _cleanup_free_ struct sampling_rule_count *counts = calloc((size_t)t->cpu_count, sizeof(*counts));
    if (!counts || bpf_map_lookup_elem(t->counts_fd, &number, counts) < 0)
        return sum;
    for (int i = 0; i < t->cpu_count; i++) {
        sum.ticks += counts[i].ticks;
        sum.samples += counts[i].samples;
    }
    return sum;
}
