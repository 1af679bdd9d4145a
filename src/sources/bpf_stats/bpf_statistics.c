/* Reads every program's counters twice and reports the difference; see bpf_statistics.h. A program loaded in between
 * started at zero, so its whole count belongs to the interval. */
#include "sources/bpf_stats/bpf_statistics.h"

#include "base/clock.h"

#include <assert.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRAMS_MAX 4096 /* held open at a time */

struct held_program {
    uint32_t id;
    int fd;
    uint64_t runs, run_time_ns, missed; /* at the start */
};

struct bpf_statistics {
    int enabled_fd; /* the kernel counts while it is open */
    uint64_t start_ns, duration_ns, left_out;
    struct held_program *programs; /* sorted by ID */
    size_t count;
    struct bpf_program_use *uses;
};

/* Takes ownership of `fd`. */
static int hold_program(struct bpf_statistics *s, uint32_t id, int fd, const struct bpf_prog_info *at_start)
{
    struct held_program *grown = realloc(s->programs, (s->count + 1) * sizeof(*grown));
    if (!grown) {
        close(fd);
        return -ENOMEM;
    }
    s->programs = grown;
    grown[s->count++] = (struct held_program){.id = id,
                                              .fd = fd,
                                              .runs = at_start->run_cnt,
                                              .run_time_ns = at_start->run_time_ns,
                                              .missed = at_start->recursion_misses};
    return 0;
}

static int read_counters(int fd, struct bpf_prog_info *ret)
{
    *ret = (struct bpf_prog_info){0};
    uint32_t size = sizeof(*ret);
    return bpf_obj_get_info_by_fd(fd, ret, &size) ? -errno : 0;
}

/* Holds the programs with an ID above `after`. All runs of programs that were `loaded_meanwhile` count. */
static int hold_programs(struct bpf_statistics *s, uint32_t after, bool loaded_meanwhile)
{
    uint32_t id = after;
    while (bpf_prog_get_next_id(id, &id) == 0) {
        struct bpf_prog_info info;
        int fd = s->count < PROGRAMS_MAX ? bpf_prog_get_fd_by_id(id) : -EMFILE;
        if (fd == -ENOENT) /* unloaded in the meantime */
            continue;
        if (fd < 0 || read_counters(fd, &info) < 0) {
            if (fd >= 0)
                close(fd);
            s->left_out++;
            continue;
        }
        if (loaded_meanwhile)
            info = (struct bpf_prog_info){0};
        int r = hold_program(s, id, fd, &info);
        if (r < 0)
            return r;
    }
    return errno == ENOENT ? 0 : -errno;
}

int bpf_statistics_new(struct bpf_statistics **ret)
{
    _cleanup_(bpf_statistics_freep) struct bpf_statistics *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->enabled_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
    if (s->enabled_fd < 0)
        return errno == EPERM || errno == EACCES ? -EPERM : errno == EINVAL ? -EOPNOTSUPP : -errno;
    int r = hold_programs(s, 0, false);
    if (r < 0)
        return r;
    s->start_ns = clock_monotonic_ns();
    *ret = take_ptr(s);
    return 0;
}

void bpf_statistics_free(struct bpf_statistics *s)
{
    if (!s)
        return;
    if (s->enabled_fd >= 0)
        close(s->enabled_fd);
    for (size_t i = 0; i < s->count; i++)
        close(s->programs[i].fd);
    free(s->programs);
    free(s->uses);
    free(s);
}

/* The kernel keeps 15 bytes of a program's name; its BTF has the full name. */
static void read_name(const struct bpf_prog_info *counters, int fd, char ret[BPF_USE_NAME_BYTES])
{
    snprintf(ret, BPF_USE_NAME_BYTES, "%s", counters->name);
    if (!counters->btf_id || !counters->nr_func_info || counters->func_info_rec_size > sizeof(struct bpf_func_info))
        return;
    struct bpf_func_info first = {0};
    struct bpf_prog_info info = {
        .nr_func_info = 1, .func_info_rec_size = counters->func_info_rec_size, .func_info = (uintptr_t)&first};
    uint32_t size = sizeof(info);
    if (bpf_obj_get_info_by_fd(fd, &info, &size) || !info.func_info)
        return;
    struct btf *btf = btf__load_from_kernel_by_id(info.btf_id);
    const struct btf_type *type = btf ? btf__type_by_id(btf, first.type_id) : NULL;
    const char *full = type ? btf__name_by_offset(btf, type->name_off) : NULL;
    if (full && *full)
        snprintf(ret, BPF_USE_NAME_BYTES, "%s", full);
    btf__free(btf);
}

static int compare_ids(const void *a, const void *b)
{
    const struct bpf_program_use *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static struct bpf_program_use *find_use(struct bpf_statistics *s, uint32_t id)
{
    const struct bpf_program_use wanted = {.id = id};
    return bsearch(&wanted, s->uses, s->count, sizeof(wanted), compare_ids);
}

/* Appends the attach point of one link, such as "raw_tracepoint sys_enter", unless it is listed already. */
static void add_attach_point(struct bpf_program_use *use, const struct bpf_link_info *link, const char *tracepoint)
{
    char attach_point[96];
    const char *type = libbpf_bpf_link_type_str(link->type);
    if (link->type == BPF_LINK_TYPE_RAW_TRACEPOINT && *tracepoint)
        snprintf(attach_point, sizeof(attach_point), "raw_tracepoint %s", tracepoint);
    else if (link->type == BPF_LINK_TYPE_XDP)
        snprintf(attach_point, sizeof(attach_point), "xdp of interface %u", link->xdp.ifindex);
    else
        snprintf(attach_point, sizeof(attach_point), "%s", type ? type : "?");
    const size_t used = strlen(use->places);
    if (strstr(use->places, attach_point) || used + strlen(attach_point) + 3 > sizeof(use->places))
        return;
    snprintf(use->places + used, sizeof(use->places) - used, "%s%s", used ? ", " : "", attach_point);
}

/* Finds attach points by links. Programs attached without one (ioctl, tc) show none. */
static void read_attach_points(struct bpf_statistics *s)
{
    uint32_t id = 0;
    while (bpf_link_get_next_id(id, &id) == 0) {
        _cleanup_close_ int fd = bpf_link_get_fd_by_id(id);
        char tracepoint[64] = "";
        struct bpf_link_info info = {0};
        uint32_t size = sizeof(info);
        if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size))
            continue;
        if (info.type == BPF_LINK_TYPE_RAW_TRACEPOINT) {
            info = (struct bpf_link_info){
                .raw_tracepoint = {.tp_name = (uintptr_t)tracepoint, .tp_name_len = sizeof(tracepoint)}};
            size = sizeof(info);
            if (bpf_obj_get_info_by_fd(fd, &info, &size))
                continue;
        }
        struct bpf_program_use *use = find_use(s, info.prog_id);
        if (use)
            add_attach_point(use, &info, tracepoint);
    }
}

int bpf_statistics_read(struct bpf_statistics *s, struct bpf_program_use **ret, size_t *ret_count)
{
    assert(!s->uses);
    int r = hold_programs(s, s->count ? s->programs[s->count - 1].id : 0, true);
    if (r < 0)
        return r;
    s->uses = calloc(s->count ? s->count : 1, sizeof(*s->uses));
    if (!s->uses)
        return -ENOMEM;
    s->duration_ns = clock_monotonic_ns() - s->start_ns;
    for (size_t i = 0; i < s->count; i++) {
        const struct held_program *h = &s->programs[i];
        struct bpf_program_use *use = &s->uses[i];
        struct bpf_prog_info info;
        r = read_counters(h->fd, &info);
        if (r < 0)
            return r;
        const char *type = libbpf_bpf_prog_type_str(info.type);
        *use = (struct bpf_program_use){
            .id = h->id,
            .type = type ? type : "?",
            .runs = info.run_cnt - h->runs,
            .run_time_ns = info.run_time_ns - h->run_time_ns,
            .missed = info.recursion_misses - h->missed,
        };
        read_name(&info, h->fd, use->name);
    }
    close(s->enabled_fd);
    s->enabled_fd = -1;
    read_attach_points(s);
    *ret = s->uses;
    *ret_count = s->count;
    return 0;
}

uint64_t bpf_statistics_duration_ns(const struct bpf_statistics *s)
{
    return s->duration_ns;
}

uint64_t bpf_statistics_left_out(const struct bpf_statistics *s)
{
    return s->left_out;
}
