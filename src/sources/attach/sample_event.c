/* Parses event names; see sample_event.h. Periods are fixed, so that the weight of a sample is exact. Periods of
 * hardware counters yield some hundred samples a second on a busy CPU. */
#include "sources/attach/sample_event.h"

#include "base/cleanup.h"

#include <linux/types.h>

#include "probes/event.h"

#include <ctype.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const struct {
    const char *name;
    enum sample_event_kind kind;
    uint64_t config, period;
} counted[] = {
    {"page-faults", SAMPLE_EVENT_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 1},
    {"minor-faults", SAMPLE_EVENT_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, 1},
    {"major-faults", SAMPLE_EVENT_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, 1},
    {"context-switches", SAMPLE_EVENT_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 1},
    {"cpu-migrations", SAMPLE_EVENT_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, 1},
    {"cycles", SAMPLE_EVENT_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 10000000},
    {"instructions", SAMPLE_EVENT_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, 10000000},
    {"cache-references", SAMPLE_EVENT_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES, 200000},
    {"cache-misses", SAMPLE_EVENT_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, 20000},
    {"branches", SAMPLE_EVENT_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 2000000},
    {"branch-misses", SAMPLE_EVENT_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, 20000},
};

static const char *const units[] = {
    [EVENT_UNIT_COUNT] = "count", [EVENT_UNIT_BYTES] = "bytes", [EVENT_UNIT_NANOSECONDS] = "nanoseconds"};

static const char *const forms[] = {"mmap", "brk", "tracepoint:SUBSYSTEM:NAME", "usdt:PROVIDER:PROBE",
                                    "usdt:/PATH:PROVIDER:PROBE"};

const char *sample_event_form(size_t i)
{
    if (i < array_size(counted))
        return counted[i].name;
    i -= array_size(counted);
    return i < array_size(forms) ? forms[i] : NULL;
}

static int parse_counted(const char *name, struct sample_event *ret)
{
    for (size_t i = 0; i < array_size(counted); i++) {
        if (strcmp(name, counted[i].name) != 0)
            continue;
        *ret = (struct sample_event){
            .kind = counted[i].kind,
            .unit = "count",
            .period = counted[i].period,
            .perf_type = counted[i].kind == SAMPLE_EVENT_HARDWARE ? PERF_TYPE_HARDWARE : PERF_TYPE_SOFTWARE,
            .perf_config = counted[i].config,
        };
        snprintf(ret->name, sizeof(ret->name), "%s", name);
        return 0;
    }
    return -EINVAL;
}

static int parse_bytes(const char *name, struct sample_event *ret)
{
    const bool is_brk = strcmp(name, "brk") == 0;
    if (!is_brk && strcmp(name, "mmap") != 0)
        return -EINVAL;
    *ret = (struct sample_event){.kind = is_brk ? SAMPLE_EVENT_BRK : SAMPLE_EVENT_MMAP, .unit = "bytes"};
    snprintf(ret->name, sizeof(ret->name), "%s", name);
    return 0;
}

static bool is_part_of_name(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("_-.$", c));
}

/* A part becomes a path component, or is compared with names in a file. */
static int take_part(const char *text, size_t size, char ret[SAMPLE_EVENT_NAME_MAX])
{
    if (size == 0 || text[0] == '.')
        return -EINVAL;
    if (size >= SAMPLE_EVENT_NAME_MAX)
        return -ENAMETOOLONG;
    for (size_t i = 0; i < size; i++)
        if (!is_part_of_name(text[i]))
            return -EINVAL;
    memcpy(ret, text, size);
    ret[size] = '\0';
    return 0;
}

static int take_pair(const char *text, struct sample_event *ret)
{
    const char *colon = strchr(text, ':');
    if (!colon)
        return -EINVAL;
    int r = take_part(text, (size_t)(colon - text), ret->group);
    if (r == 0)
        r = take_part(colon + 1, strlen(colon + 1), ret->member);
    if (r == 0)
        snprintf(ret->name, sizeof(ret->name), "%s:%s", ret->group, ret->member);
    return r;
}

/* The path may contain colons; provider and probe may not. */
static int take_path(const char *text, struct sample_event *ret, const char **ret_rest)
{
    const char *end = strrchr(text, ':');
    while (end && end > text && end[-1] != ':')
        end--;
    if (!end || end == text) /* no colon, or just one */
        return -EINVAL;
    const size_t size = (size_t)(end - 1 - text);
    if (size >= sizeof(ret->path))
        return -ENAMETOOLONG;
    memcpy(ret->path, text, size);
    *ret_rest = end;
    return 0;
}

int sample_event_parse(const char *name, struct sample_event *ret)
{
    static const char tracepoint[] = "tracepoint:", user_probe[] = "usdt:";
    _cleanup_free_ struct sample_event *e = calloc(1, sizeof(*e));
    const char *rest;
    int r;
    if (!e)
        return -ENOMEM;
    if (strncmp(name, tracepoint, strlen(tracepoint)) == 0) {
        e->kind = SAMPLE_EVENT_TRACEPOINT;
        r = take_pair(name + strlen(tracepoint), e);
    } else if (strncmp(name, user_probe, strlen(user_probe)) == 0) {
        e->kind = SAMPLE_EVENT_USER_PROBE;
        rest = name + strlen(user_probe);
        r = rest[0] == '/' ? take_path(rest, e, &rest) : 0;
        if (r == 0)
            r = take_pair(rest, e);
    } else {
        r = parse_counted(name, ret);
        return r < 0 ? parse_bytes(name, ret) : r;
    }
    if (r < 0)
        return r;
    e->unit = "count";
    e->period = 1;
    *ret = *e;
    return 0;
}

void sample_event_gpu(struct sample_event *ret)
{
    *ret = (struct sample_event){.kind = SAMPLE_EVENT_GPU, .name = "gpu", .unit = units[EVENT_UNIT_NANOSECONDS]};
}

_Static_assert(sizeof(((struct sample_event *)0)->name) == EVENT_NAME_BYTES, "a name fits into its record");

static uint32_t find_unit(const char *unit)
{
    uint32_t i = 0;
    while (i < array_size(units) - 1 && strcmp(unit, units[i]) != 0)
        i++;
    return i;
}

void sample_event_to_record(const struct sample_event *e, struct event_record *ret)
{
    *ret = (struct event_record){
        .h = {.size_bytes = sizeof(*ret), .kind = RECORD_EVENT}, .period = e->period, .unit = find_unit(e->unit)};
    memcpy(ret->name, e->name, strlen(e->name)); /* the rest is zeroed */
}

bool sample_event_record_is_sound(const struct event_record *record)
{
    size_t size = 0;
    if (record->h.size_bytes != sizeof(*record) || record->unit >= array_size(units))
        return false;
    while (size < sizeof(record->name) && (is_part_of_name(record->name[size]) || record->name[size] == ':'))
        size++;
    return size > 0 && size < sizeof(record->name) && !record->name[size];
}

void sample_event_from_record(const struct event_record *record, struct sample_event *ret)
{
    *ret = (struct sample_event){.unit = units[record->unit], .period = record->period};
    snprintf(ret->name, sizeof(ret->name), "%s", record->name);
}

void sample_event_attr(const struct sample_event *e, struct perf_event_attr *ret)
{
    *ret = (struct perf_event_attr){
        .type = e->perf_type,
        .config = e->perf_config,
        .sample_period = e->period,
        .sample_id_all = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .wakeup_events = UINT32_MAX, /* the ring holds throttle notices only */
    };
}

int sample_event_try(const struct sample_event *e)
{
    struct perf_event_attr attr;
    sample_event_attr(e, &attr);
    attr.size = sizeof(attr);
    attr.disabled = 1;
    _cleanup_close_ int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : 0;
}
