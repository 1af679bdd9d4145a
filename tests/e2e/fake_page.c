/* The page's server on synthetic data, so that it can be tested without root, a kernel or random sampling:
 * `fake_page [MODE] [LISTEN [ALLOWED_HOSTS]]` prints "port N" and serves until standard input ends. The data is exact,
 * so that a test knows what the page must show. Modes:
 *
 *   normal   three processes, one in a container; each profile has 10 ms more of nginx's worker() than the previous one
 *   empty    no samples, no requests
 *   failing  every call fails
 *   large    20,000 frames
 *   hostile  names with markup, quotes, control characters and invalid UTF-8 */
#include "fake_page.h"

#include "base/buf.h"
#include "base/clock.h"
#include "export/node_event_json.h"
#include "model/loss.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct frame native(const char *function, const char *mapping)
{
    return (struct frame){
        .kind = FRAME_NATIVE, .function = function, .file = "", .mapping = mapping, .build_id = "", .address = 0x1234};
}

static struct frame of_kind(enum frame_kind kind, const char *function, const char *mapping)
{
    struct frame f = native(function, mapping);
    f.kind = kind;
    return f;
}

static struct resource process(uint32_t pid, const char *command, const char *container)
{
    return (struct resource){
        .pid = pid,
        .parent_pid = 1,
        .command = command,
        .executable_path = "/usr/sbin/server",
        .service_name = command,
        .service_namespace = "",
        .service_version = "",
        .container_id = container,
        .container_runtime = container[0] ? "docker" : "",
        .kubernetes_pod_uid = "",
        .slurm_job_id = "",
        .systemd_unit = "",
        .cgroup_path = "/",
    };
}

static int add(struct profile *p, const struct resource *r, uint64_t value, const struct frame *frames, size_t count)
{
    const struct sample s = {.value = value,
                             .resource = r,
                             .tid = r->pid,
                             .thread_name = r->command,
                             .frames = frames,
                             .frame_count = count};
    return profile_add(p, &s);
}

#define ADD(p, r, value, ...)                                                                                          \
    add(p, r, value, (const struct frame[]){__VA_ARGS__},                                                              \
        sizeof((const struct frame[]){__VA_ARGS__}) / sizeof(struct frame))

#define CONTAINER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define NGINX     "/usr/sbin/nginx"
#define LIBC      "/usr/lib/x86_64-linux-gnu/libc.so.6"
#define KERNEL    "[kernel.kallsyms]"

/* nginx: 600 ms, including 100 ms in the kernel; postgres: 300 ms; python3: 100 ms. */
static void fill_normal(struct profile *p, unsigned round)
{
    const struct resource nginx = process(101, "nginx", ""), postgres = process(202, "postgres", CONTAINER),
                          python = process(303, "python3", "");
    struct frame start = native("_start", NGINX), main_ = native("main", NGINX),
                 worker = native("worker(int, char const*)", NGINX);
    struct frame parse = native("parse_headers", NGINX), copy = native("memcpy", LIBC), write_ = native("write", LIBC);
    worker.file = "src/worker.cc";
    worker.line = 42;
    ADD(p, &nginx, (200 + 10 * round) * MS, worker, main_, start);
    ADD(p, &nginx, 200 * MS, parse, worker, main_, start);
    ADD(p, &nginx, 100 * MS, copy, parse, worker, main_, start);
    ADD(p, &nginx, 100 * MS, of_kind(FRAME_BPF, "bpf_prog_socket_filter", "[bpf]"),
        of_kind(FRAME_KERNEL, "tcp_sendmsg", KERNEL), of_kind(FRAME_KERNEL, "do_syscall_64", KERNEL), write_, worker,
        main_, start);
    ADD(p, &postgres, 180 * MS, native("ExecSeqScan", "/usr/lib/postgresql/15/bin/postgres"),
        native("PostmasterMain", "/usr/lib/postgresql/15/bin/postgres"),
        of_kind(FRAME_TRUNCATED, "no rows for /usr/lib/postgresql/15/bin/postgres", ""));
    ADD(p, &postgres, 120 * MS, of_kind(FRAME_KERNEL, "copy_user_generic", KERNEL),
        of_kind(FRAME_KERNEL, "vfs_read", KERNEL), of_kind(FRAME_KERNEL, "do_syscall_64", KERNEL),
        native("pread64", LIBC), native("PostmasterMain", "/usr/lib/postgresql/15/bin/postgres"));
    ADD(p, &python, 100 * MS, of_kind(FRAME_INTERPRETED, "handler", "app.py"),
        native("_PyEval_EvalFrameDefault", "/usr/bin/python3.11"));
}

/* 20,000 frames: 20 processes, each with ten stacks that are 100 deep. */
static void fill_large(struct profile *p)
{
    static char names[20][10][20][32];
    for (unsigned pid = 0; pid < 20; pid++) {
        char command[32];
        snprintf(command, sizeof(command), "worker-%u", pid);
        const struct resource r = process(1000 + pid, command, "");
        for (unsigned branch = 0; branch < 10; branch++) {
            struct frame frames[100];
            for (unsigned i = 0; i < 100; i++) {
                snprintf(names[pid][branch][i % 20], 32, "function_%u_%u", branch, i % 20);
                frames[99 - i] = native(names[pid][branch][i % 20], i % 3 ? NGINX : LIBC);
            }
            add(p, &r, (1 + branch) * MS, frames, 100);
        }
    }
}

static void fill_hostile(struct profile *p)
{
    const struct resource r = process(666, "</script><b>x", "");
    ADD(p, &r, 50 * MS, native("</script><img src=x onerror=\"document.title='owned'\">", "/tmp/<svg onload=alert(1)>"),
        native("a\"b\\c\n\t\x01&amp;", "\xff\xfe"));
    ADD(p, &r, 50 * MS, native("", ""), native("std::map<int, std::vector<char> >::operator[](int const&)", "/x"));
}

/* Only nginx waits: 4 s for a lock, 1 s for a CPU. */
static void fill_waits(struct profile *p)
{
    const struct resource nginx = process(101, "nginx", "");
    const struct frame lock = {
        .kind = FRAME_WAIT, .function = "[lock: futex]", .system_name = "", .file = "", .mapping = "", .build_id = ""};
    struct frame queue = lock;
    queue.function = "[run queue]";
    ADD(p, &nginx, 4000 * MS, lock, native("pthread_mutex_lock", LIBC), native("take_job", NGINX),
        native("main", NGINX));
    ADD(p, &nginx, 1000 * MS, queue, native("worker(int, char const*)", NGINX), native("main", NGINX));
}

static int fake_profile(void *context, uint64_t seconds, const struct profile_filter *filter, struct profile **ret)
{
    struct fake *fake = context;
    _cleanup_(profile_freep) struct profile *all = NULL, *chosen = NULL;
    unsigned round = atomic_fetch_add(&fake->profiles, 1);
    if (strcmp(fake->mode, "failing") == 0)
        return -EIO;
    while (getenv("PAGE_BLOCKED_BY") && access(getenv("PAGE_BLOCKED_BY"), F_OK) == 0)
        usleep(10000);
    int r = profile_new(0, &all);
    if (r == 0)
        r = profile_new(0, &chosen);
    if (r < 0)
        return r;
    if (strcmp(fake->mode, "normal") == 0 && filter->type != &sample_type_off_cpu)
        fill_normal(all, round);
    if (strcmp(fake->mode, "normal") == 0 && filter->type != &sample_type_cpu)
        fill_waits(all);
    else if (strcmp(fake->mode, "large") == 0)
        fill_large(all);
    else if (strcmp(fake->mode, "hostile") == 0)
        fill_hostile(all);
    r = profile_merge(chosen, all, filter);
    if (r < 0)
        return r;
    chosen->duration_ns = seconds * 1000 * MS;
    chosen->start_unix_ns = clock_unix_ns() - chosen->duration_ns;
    chosen->period = 1000 * MS / 19;
    chosen->type = filter->type;
    *ret = take_ptr(chosen);
    return 0;
}

/* The synthetic agent started at 100 s and its clock stands at 120 s. In each of the first five slots of every second
 * nginx has a sample of 50 ms in worker(), and from 110 s on a second one in parse_headers(); postgres has one in slot
 * 25 of every second; python3 has ten in slot 49 of second 115 only: the spike. Slots before 103 s are no longer kept.
 */
#define FAKE_FIRST_S 100
#define FAKE_KEPT_S  103
#define FAKE_NOW_S   120
#define SECOND_NS    (1000 * MS)
#define LARGE_SERIES 130000

struct fake_slot {
    const struct profile_filter *filter;
    struct profile *p;
    struct profile_amount sum;
};

static int put_in_slot(struct fake_slot *slot, const struct resource *r, unsigned count, const char *function)
{
    const struct frame frames[] = {native(function, NGINX), native("main", NGINX)};
    const struct profile_filter *f = slot->filter;
    int e = 0;
    if ((f->pid && f->pid != r->pid) ||
        (f->container_id && strncmp(f->container_id, r->container_id, strlen(f->container_id)) != 0))
        return 0;
    for (unsigned i = 0; e >= 0 && i < count; i++) {
        slot->sum.count++;
        slot->sum.value += 50 * MS;
        e = slot->p ? add(slot->p, r, 50 * MS, frames, 2) : 0;
    }
    return e;
}

static int fill_slot(uint64_t number, struct fake_slot *slot)
{
    const struct resource nginx = process(101, "nginx", ""), postgres = process(202, "postgres", CONTAINER),
                          python = process(303, "python3", "");
    const uint64_t second = number / HEATMAP_SLOTS_PER_SECOND, row = number % HEATMAP_SLOTS_PER_SECOND;
    int r = 0;
    if (second < FAKE_FIRST_S || second >= FAKE_NOW_S)
        return 0;
    if (row < 5)
        r = put_in_slot(slot, &nginx, 1, "worker(int, char const*)");
    if (r == 0 && row < 5 && second >= 110)
        r = put_in_slot(slot, &nginx, 1, "parse_headers");
    if (r == 0 && row == 25)
        r = put_in_slot(slot, &postgres, 1, "ExecSeqScan");
    if (r == 0 && row == 49 && second == 115)
        r = put_in_slot(slot, &python, 10, "handler");
    return r;
}

static int fake_region(void *context, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                       struct profile **ret)
{
    const struct fake *fake = context;
    _cleanup_(profile_freep) struct profile *p = NULL;
    if (strcmp(fake->mode, "failing") == 0)
        return -EIO;
    if (from_ns >= FAKE_NOW_S * SECOND_NS)
        return -ERANGE;
    if (from_ns < FAKE_KEPT_S * SECOND_NS)
        return -ENODATA;
    int r = profile_new(0, &p);
    struct fake_slot slot = {.filter = filter, .p = p};
    for (uint64_t i = from_ns / HEATMAP_SLOT_NS;
         r == 0 && i * HEATMAP_SLOT_NS < to_ns && i < FAKE_NOW_S * HEATMAP_SLOTS_PER_SECOND; i++)
        r = fill_slot(i, &slot);
    if (r < 0)
        return r;
    p->start_unix_ns = from_ns;
    p->duration_ns = to_ns - from_ns;
    p->period = 50 * MS;
    *ret = take_ptr(p);
    return 0;
}

static int fake_heatmap(void *context, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                        struct heatmap **ret)
{
    const struct fake *fake = context;
    if (strcmp(fake->mode, "failing") == 0)
        return -EIO;
    const uint64_t count = strcmp(fake->mode, "normal") == 0 ? FAKE_NOW_S - FAKE_FIRST_S : 0;
    struct heatmap *h = calloc(1, sizeof(*h) + count * sizeof(h->seconds[0]));
    if (!h)
        return -ENOMEM;
    (void)from_ns; /* returns everything: its clock differs from the caller's */
    (void)to_ns;
    *h = (struct heatmap){.start_ns = FAKE_FIRST_S * SECOND_NS,
                          .start_unix_ns = FAKE_START_UNIX_NS,
                          .now_ns = FAKE_NOW_S * SECOND_NS,
                          .period = 50 * MS,
                          .second_count = (uint32_t)count};
    for (uint64_t i = 0; i < count * HEATMAP_SLOTS_PER_SECOND; i++) {
        struct fake_slot slot = {.filter = filter};
        fill_slot(FAKE_FIRST_S * HEATMAP_SLOTS_PER_SECOND + i, &slot);
        struct heatmap_second *second = &h->seconds[i / HEATMAP_SLOTS_PER_SECOND];
        second->kept = FAKE_FIRST_S + i / HEATMAP_SLOTS_PER_SECOND >= FAKE_KEPT_S;
        second->cells[i % HEATMAP_SLOTS_PER_SECOND] = slot.sum;
    }
    *ret = h;
    return 0;
}

/* The heatmap's data in windows of five seconds, including the time before the kept slots. */
static int fake_hotspots(void *context, uint64_t from_ns, uint64_t to_ns, const struct profile_filter *filter,
                         const struct hotspots_options *options, struct hotspots **ret)
{
    const struct fake *fake = context;
    const uint64_t window_ns = 5 * SECOND_NS;
    _cleanup_(hotspots_freep) struct hotspots *h = NULL;
    if (strcmp(fake->mode, "failing") == 0)
        return -EIO;
    (void)from_ns; /* returns everything: its clock differs from the caller's */
    (void)to_ns;
    int r = hotspots_new(options, strcmp(fake->mode, "normal") == 0 ? (FAKE_NOW_S - FAKE_FIRST_S) / 5 : 0, &h);
    for (uint32_t i = 0; r == 0 && i < h->window_count; i++) {
        const uint64_t start_ns = FAKE_FIRST_S * SECOND_NS + i * window_ns;
        _cleanup_(profile_freep) struct profile *p = NULL;
        h->windows[i] =
            (struct hotspots_window){.start_ns = start_ns, .end_ns = start_ns + window_ns, .duration_ns = window_ns};
        r = profile_new(0, &p);
        struct fake_slot slot = {.filter = filter, .p = p};
        for (uint64_t j = start_ns / HEATMAP_SLOT_NS; r == 0 && j < (start_ns + window_ns) / HEATMAP_SLOT_NS; j++)
            r = fill_slot(j, &slot);
        if (r == 0)
            r = hotspots_add(h, i, p, NULL);
    }
    if (r == 0)
        r = hotspots_finish(h);
    if (r < 0)
        return r;
    h->start_unix_ns = FAKE_START_UNIX_NS;
    h->now_ns = FAKE_NOW_S * SECOND_NS;
    h->period = 50 * MS;
    *ret = take_ptr(h);
    return 0;
}

static int fake_events(void *context, uint64_t seconds, size_t max, struct buf *out)
{
    const struct fake *fake = context;
    (void)seconds;
    (void)max;
    static const struct node_event_attribute port = {"server.port", "8080"};
    static const struct node_event events[] = {
        {.duration_ns = 5 * SECOND_NS,
         .name = "drops.listen_overflow",
         .text = "port 8080 of shop refused 37 connections",
         .attributes = &port,
         .attribute_count = 1},
        {.duration_ns = 2 * SECOND_NS, .name = "io.slow", .text = "\033[31mfsync took 2.00 s"},
        {.duration_ns = SECOND_NS, .name = "io.slow", .text = "fsync took 1.00 s"},
    };
    if (strcmp(fake->mode, "failing") == 0)
        return -EIO;
    for (size_t i = 0; strcmp(fake->mode, "hostile") == 0 && i < sizeof(events) / sizeof(events[0]); i++) {
        buf_puts(out, i ? "," : "");
        node_event_json_write(&events[i], FAKE_NOW_S * SECOND_NS, out);
    }
    /* Seven in the heatmap's time. The last two overlap the request of /static/app.js. */
    static const struct node_event_attribute pid = {"process.pid", "101"};
    static const struct node_event of_normal[] = {
        {.time_ns = 12000 * MS, .name = "io.slow", .text = "fsync took 1.00 s"},
        {.time_ns = 11000 * MS, .name = "io.slow", .text = "fsync took 1.01 s"},
        {.time_ns = 10000 * MS, .duration_ns = 5 * SECOND_NS, .name = "io.slow", .text = "fsync took 5.00 s"},
        {.time_ns = 9000 * MS, .name = "io.slow", .text = "fsync took 1.03 s"},
        {.time_ns = 8000 * MS, .name = "io.slow", .text = "fsync took 1.04 s"},
        {.time_ns = 2500 * MS,
         .duration_ns = 600 * MS,
         .name = "drops.listen_overflow",
         .text = "port 8080 of shop refused 37 connections",
         .attributes = &port,
         .attribute_count = 1},
        {.time_ns = 2050 * MS,
         .duration_ns = 300 * MS,
         .name = "runqueue.delayed",
         .text = "nginx (thread 101) waited 300 ms for CPU 1",
         .attributes = &pid,
         .attribute_count = 1},
    };
    for (size_t i = 0; strcmp(fake->mode, "normal") == 0 && i < sizeof(of_normal) / sizeof(of_normal[0]); i++) {
        buf_puts(out, i ? "," : "");
        node_event_json_write(&of_normal[i], FAKE_START_UNIX_NS + of_normal[i].time_ns, out);
    }
    return buf_error(out);
}

static void fake_hold(void *context, int64_t bytes)
{
    (void)context;
    (void)bytes;
}

static void fake_connection_ended(void *context, enum connection_end end)
{
    struct fake *fake = context;
    atomic_fetch_add(&fake->ended[end], 1);
}

static uint64_t fake_idle_ns(void *context)
{
    const struct fake *fake = context;
    return strcmp(fake->mode, "failing") == 0 ? 12300000000 : 0;
}

static int fake_metrics(void *context, struct metric_set *set)
{
    const struct fake *fake = context;
    if (strcmp(fake->mode, "failing") == 0)
        return -EIO;
    metric_add(set, "sonde_self_samples", METRIC_COUNTER, "", "CPU samples delivered.", 19, METRIC_NO_LABELS);
    for (int i = 0; i < CONNECTION_END_COUNT; i++)
        metric_add(set, "sonde_self_connections_closed", METRIC_COUNTER, "", "Connections that were closed.",
                   atomic_load(&fake->ended[i]), METRIC_LABELS({"reason", connection_end_name(i)}));
    for (int i = 0; strcmp(fake->mode, "large") == 0 && i < LARGE_SERIES; i++) {
        char job[32];
        snprintf(job, sizeof(job), "job-%d", i);
        metric_add(set, "sonde_io_operations", METRIC_COUNTER, "", "I/O operations.", i, METRIC_LABELS({"job", job}));
    }
    return metric_set_error(set);
}

static int fake_status(void *context, char **ret_json)
{
    const struct fake *fake = context;
    struct buf out = {0};
    bool over = strcmp(fake->mode, "large") == 0, attached = strcmp(fake->mode, "empty") != 0;
    if (strcmp(fake->mode, "failing") == 0)
        return -EIO;
    buf_puts(
        &out,
        "{\"version\":\"" SONDE_VERSION
        "\",\"host\":\"node-7\",\"kernel\":\"6.1.0-31-amd64\",\"now_ms\":120000,\"uptime_seconds\":3725.0,\"samples\":70654,\"sample_hz\":");
    buf_puts(&out, over ? "9.5" : "19");
    if (strcmp(fake->mode, "normal") == 0)
        buf_puts(&out, ",\"waits\":5");
    buf_puts(&out, ",\"stacks\":10008,\"incomplete_stacks\":1251,\"losses\":{");
    for (int i = 0; i < LOSS_COUNT; i++)
        buf_printf(&out, "%s\"%s\":%u", i ? "," : "", loss_name(i),
                   i == LOSS_NO_UNWIND_TABLE ? 1234U
                   : i == LOSS_UNNAMED       ? 17U
                                             : 0U);
    buf_printf(
        &out,
        "},\"budget\":{\"detail\":\"%s\",\"one_cpu_share\":%s,\"one_cpu_share_allowed\":0.05,\"memory_bytes\":44040192,\"memory_bytes_allowed\":67108864,\"reduced\":[%s],\"complete\":[\"off-CPU time\"]},\"probes\":[",
        over ? "half_rate" : "full", over ? "0.063" : "0.0042", over ? "\"CPU samples at half the rate\"" : "");
    buf_printf(
        &out,
        "{\"probe\":\"CPU samples\",\"attached\":true,\"method\":\"perf event, cpu-clock\",\"fallback_reason\":\"\",\"limitation\":\"\"},"
        "{\"probe\":\"requests\",\"attached\":%s,\"method\":\"%s\",\"fallback_reason\":\"fentry: Operation not permitted\",\"limitation\":\"sendfile is not seen\"}]}",
        attached ? "true" : "false", attached ? "raw tracepoints" : "");
    if (buf_error(&out) < 0)
        return buf_error(&out);
    *ret_json = out.data;
    return 0;
}

/* In nanoseconds; 0: not set. */
static uint64_t seconds_of(const char *variable)
{
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 10) * 1000 * MS : 0;
}

/* Until the end of standard input. */
static void tick_until_end(struct page *page)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    while (poll(&in, 1, 100) == 0 || read(STDIN_FILENO, &byte, 1) > 0)
        page_tick(page);
}

int main(int argc, char **argv)
{
    struct fake fake = {.mode = argc > 1 ? argv[1] : "normal"};
    const struct page_data data = {.context = &fake,
                                   .profile = fake_profile,
                                   .region = fake_region,
                                   .heatmap = fake_heatmap,
                                   .hotspots = fake_hotspots,
                                   .requests = fake_requests,
                                   .routes = fake_routes,
                                   .calls = fake_calls,
                                   .events = fake_events,
                                   .coverage = fake_coverage,
                                   .metrics = fake_metrics,
                                   .idle_ns = fake_idle_ns,
                                   .hold = fake_hold,
                                   .connection_ended = fake_connection_ended,
                                   .status = fake_status};
    const struct page_options options = {.listen = argc > 2 ? argv[2] : "127.0.0.1:0",
                                         .socket = {.path = getenv("PAGE_SOCKET"), .mode = 0660},
                                         .access = {.token_file = getenv("PAGE_TOKENS"),
                                                    .tls_certificate = getenv("PAGE_CERTIFICATE"),
                                                    .tls_key = getenv("PAGE_KEY")},
                                         .request_ns = seconds_of("PAGE_REQUEST_SECONDS"),
                                         .reply_ns = seconds_of("PAGE_REPLY_SECONDS"),
                                         .allowed_hosts = argc > 3 ? argv[3] : NULL};
    _cleanup_(page_freep) struct page *page = NULL;
    int r = page_start(&options, &data, &page);
    if (r < 0) {
        fprintf(stderr, "fake_page: %s: %s\n", options.listen, strerror(-r));
        return 1;
    }
    printf("port %u\n", page_port(page));
    fflush(stdout);
    tick_until_end(page);
    return 0;
}
