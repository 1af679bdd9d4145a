/* The synthetic requests and routes of fake_page.c, and what of them was observed. */
#include "fake_page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ten rounds: the first request's components, in pieces on five threads and an unknown one. */
static const struct request_segment *long_path(size_t *ret_count)
{
    static struct request_segment path[40]; /* every call writes the same values */
    static const struct request_segment round[] = {
        {0, 11200000, REQUEST_PART_CPU, REQUEST_OWNER_THIS, false, 101, 101, "nginx", ""},
        {0, 6 * MS, REQUEST_PART_RUN_QUEUE, REQUEST_OWNER_THIS, false, 101, 101, "nginx", "python3 ran instead"},
        {0, 60 * MS, REQUEST_PART_DOWNSTREAM, REQUEST_OWNER_THIS, false, 101, 101, "nginx", "read from 127.0.0.1:5432"},
        {0, 4 * MS, REQUEST_PART_UNATTRIBUTED, REQUEST_OWNER_UNKNOWN, true, 0, 0, "", ""}};
    uint64_t at_ns = 0;
    for (uint32_t i = 0; i < 40; i++) {
        path[i] = round[i % 4];
        path[i].start_ns = at_ns;
        at_ns += path[i].duration_ns;
        if (path[i].kind == REQUEST_PART_RUN_QUEUE)
            path[i].tid += i / 4 % 5;
    }
    *ret_count = 40;
    return path;
}

/* Short steps that are one segment with a longer one. */
static const struct request_kind_time pool_times[] = {{REQUEST_PART_CPU, 8999000}, {REQUEST_PART_LOCK, 1 * MS}},
                                      lock_times[] = {{REQUEST_PART_LOCK, 99 * MS}, {REQUEST_PART_CPU, 1 * MS}};

/* An event loop, a thread of its pool, and the holder of a lock in another process. */
static const struct request_segment lock_path[] = {
    {0, 20 * MS, REQUEST_PART_CPU, REQUEST_OWNER_THIS, false, 303, 303, "shop", ""},
    {20 * MS, 9999000, REQUEST_PART_CPU, REQUEST_OWNER_THIS, false, 310, 303, "pool-1", "in thread 310 pool-1",
     .times = pool_times, .time_count = 2},
    {29999000, 300 * MS, REQUEST_PART_LOCK, REQUEST_OWNER_OTHER, true, 2001, 320, "checkout",
     "held by thread 2001 checkout of process 320: the holder slept"},
    {329999000, 1000, REQUEST_PART_CPU, REQUEST_OWNER_SEVERAL, true, 310, 303, "pool-1", "in thread 310 pool-1"},
    {330 * MS, 100 * MS, REQUEST_PART_LOCK, REQUEST_OWNER_THIS, false, 303, 303, "shop", "futex", .times = lock_times,
     .time_count = 2}};

static const struct request_segment hostile_path[] = {{0, 1 * MS, REQUEST_PART_CPU, REQUEST_OWNER_THIS, false, 101, 101,
                                                       "</ol><img src=x onerror=\"document.title='owned'\">\xff",
                                                       "\"><img src=x onerror=\"document.title='owned'\">"}};

static const struct request synthetic_requests[] = {
    {.duration_ns = 812 * MS,
     .pid = 101,
     .service = "nginx",
     .method = "GET",
     .route = "/users/{id}/orders",
     .status = 200,
     .unit = "nginx.service",
     .port = 80,
     .usual = {.known = 3},
     .group = {.requests = 3, .time_ns = 1900 * MS},
     .cause = "74 % waiting for another service: postgres at 127.0.0.1:5432",
     .part_count = 4,
     .parts = {{REQUEST_PART_CPU, 112 * MS, "parse_headers < worker < main"},
               {REQUEST_PART_DOWNSTREAM, 600 * MS, "read from 127.0.0.1:5432"},
               {REQUEST_PART_RUN_QUEUE, 60 * MS, "python3 ran instead"},
               {REQUEST_PART_UNATTRIBUTED, 40 * MS, ""}}},
    {.duration_ns = 430 * MS,
     .pid = 303,
     .service = "shop",
     .method = "POST",
     .route = "/cart",
     .status = 503,
     .cause = "93 % waiting for a lock at pthread_mutex_lock < checkout",
     .upstream = "127.0.0.1:5432",
     .upstream_call = "PostgreSQL SELECT",
     .upstream_ns = 20 * MS,
     .port = 8100,
     .group = {.requests = 9, .lost_ns = 3762 * MS, .time_ns = 3870 * MS, .is_estimate = true},
     .group_cause = "status 503, slow: waiting for a lock held by another thread",
     .usual = {.requests = 240,
               .known = 240,
               .p50_ns = 12 * MS,
               .p99_ns = 80 * MS,
               .explained = 200,
               .part_p50_ns = {[REQUEST_PART_CPU] = 10 * MS, [REQUEST_PART_LOCK] = 1 * MS}},
     .part_count = 2,
     .parts = {{REQUEST_PART_LOCK, 400 * MS, "futex in checkout < handle: futex_wait",
                "futex_wait_[k]\n__x64_sys_futex_[k]\npthread_mutex_lock\ncheckout\nhandle\n[truncated: no rows]"},
               {REQUEST_PART_CPU, 30 * MS, ""}},
     .segments = lock_path,
     .segment_count = sizeof(lock_path) / sizeof(lock_path[0])},
    {.duration_ns = 96 * MS,
     .pid = 101,
     .service = "nginx",
     .method = "GET",
     .route = "/static/app.js",
     .status = 404,
     .group = {.requests = 1, .time_ns = 96 * MS},
     .cause = "62 % waiting for the disk: read /var/www/app.js",
     .part_count = 5,
     .parts = {{REQUEST_PART_DISK, 60 * MS, "read /var/www/app.js"},
               {REQUEST_PART_SLEEP, 10 * MS, "nanosleep"},
               {REQUEST_PART_NETWORK, 10 * MS, "write to the client"},
               {REQUEST_PART_LOOP_BUSY, 8 * MS, ""},
               {REQUEST_PART_OTHER, 8 * MS, "epoll_wait"}}},
    {.duration_ns = 3 * MS,
     .pid = 101,
     .service = "nginx",
     .method = "GET",
     .route = "/",
     .status = 200,
     .group = {.requests = 30, .time_ns = 90 * MS},
     .usual = {.requests = 30, .known = 30, .p50_ns = 3 * MS},
     .cause = "67 % on CPU",
     .part_count = 2,
     .parts = {{REQUEST_PART_CPU, 2 * MS, "worker < main"}, {REQUEST_PART_STEAL, 1 * MS, ""}}},
};

int fake_requests(void *context, uint64_t seconds, size_t max, enum request_choice which, struct request ***ret,
                  size_t *ret_count)
{
    const struct fake *fake = context;
    const bool abnormal = which == REQUEST_CHOICE_ABNORMAL || which == REQUEST_CHOICE_ABNORMAL_GROUPS,
               grouped = which == REQUEST_CHOICE_GROUPS || which == REQUEST_CHOICE_ABNORMAL_GROUPS;
    size_t count = sizeof(synthetic_requests) / sizeof(synthetic_requests[0]);
    (void)seconds;
    if (strcmp(fake->mode, "failing") == 0)
        return -EIO;
    const bool many = strcmp(fake->mode, "many") == 0;
    if (many)
        count = 12;
    else if (strcmp(fake->mode, "normal") != 0 && strcmp(fake->mode, "hostile") != 0)
        count = 0;
    if (count > max)
        count = max;
    struct request **requests = calloc(count + 1, sizeof(*requests));
    size_t shown = 0;
    for (size_t n = 0; requests && n < count; n++) {
        const size_t i = shown, from = many               ? (n == 11 ? 1 : 0)
                                       : grouped && n < 2 ? 1 - n
                                                          : n; /* of groups, the one that lost time is first */
        if (abnormal && !request_is_abnormal(&synthetic_requests[from]))
            continue;
        shown++;
        requests[i] = malloc(sizeof(*requests[i]));
        if (!requests[i])
            abort();
        *requests[i] = synthetic_requests[from];
        requests[i]->container_id = requests[i]->peer = "";
        if (!requests[i]->upstream)
            requests[i]->upstream = requests[i]->upstream_call = "";
        if (!requests[i]->unit)
            requests[i]->unit = "";
        if (!grouped)
            requests[i]->group = (struct request_group){0};
        requests[i]->tid = requests[i]->pid;
        if (from == 0)
            requests[i]->segments = long_path(&requests[i]->segment_count);
        requests[i]->start_unix_ns = FAKE_START_UNIX_NS + from * 1000 * MS;
        if (strcmp(fake->mode, "hostile") == 0) {
            requests[i]->segments = hostile_path;
            requests[i]->segment_count = sizeof(hostile_path) / sizeof(hostile_path[0]);
            requests[i]->route = requests[i]->cause = requests[i]->service = requests[i]->unit =
                requests[i]->group_cause = "</td><img src=x onerror=\"document.title='owned'\">\xff";
        }
    }
    if (!requests)
        return -ENOMEM;
    *ret = requests;
    *ret_count = shown;
    return 0;
}

static const struct request_route synthetic_routes[] = {
    {.service = "shop",
     .method = "POST",
     .route = "/cart",
     .port = 8100,
     .span_ns = 60000 * MS,
     .sampled = 240,
     .is_estimate = true,
     .requests = 1200,
     .failed = 60,
     .known = 240,
     .lost_ns = 4100 * MS,
     .lost_is_estimate = true,
     .time_ns = 19000 * MS,
     .cause_count = 2,
     .causes = {{.group = {9, 3762 * MS, 3870 * MS, true}, .kind = REQUEST_PART_LOCK},
                {.group = {60, 338 * MS, 1058 * MS, true}, .kind = REQUEST_PART_CPU, .status = 503, .is_failed = true}},
     .cause = "waiting for a lock held by another thread: the holder slept in checkout (shop.py:12)",
     .usual = {.requests = 240,
               .known = 240,
               .p50_ns = 12 * MS,
               .p99_ns = 80 * MS,
               .first_p50_ns = 9 * MS,
               .explained = 200,
               .part_p50_ns = {[REQUEST_PART_CPU] = 10 * MS, [REQUEST_PART_LOCK] = 1 * MS},
               .part_p99_ns = {[REQUEST_PART_CPU] = 20 * MS, [REQUEST_PART_LOCK] = 70 * MS}},
     .slow = {.requests = 9,
              .p50_ns = 430 * MS,
              .explained = 9,
              .part_p50_ns = {[REQUEST_PART_CPU] = 30 * MS, [REQUEST_PART_LOCK] = 400 * MS}},
     .top_kind = REQUEST_PART_LOCK,
     .top_count = 8},
    {.service = "nginx",
     .method = "GET",
     .route = "/",
     .span_ns = 60000 * MS,
     .sampled = 30,
     .requests = 30,
     .unit = "nginx.service",
     .port = 80,
     .known = 30,
     .time_ns = 90 * MS,
     .cause_count = 1,
     .causes = {{.group = {.requests = 30, .time_ns = 90 * MS}, .kind = REQUEST_PART_CPU}},
     .cause = "on a CPU",
     .usual =
         {.requests = 30, .known = 30, .p50_ns = 3 * MS, .explained = 30, .part_p50_ns = {[REQUEST_PART_CPU] = 2 * MS}},
     .top_kind = REQUEST_PART_CPU},
    {.service = "nginx", .method = "GET", .route = "/static/app.js", .span_ns = 60000 * MS},
};

int fake_routes(void *context, uint64_t seconds, struct request_route **ret, size_t *ret_count)
{
    const struct fake *fake = context;
    const bool hostile = strcmp(fake->mode, "hostile") == 0;
    const size_t count = sizeof(synthetic_routes) / sizeof(synthetic_routes[0]);
    (void)seconds;
    if (strcmp(fake->mode, "failing") == 0)
        return -EIO;
    *ret = calloc(count, sizeof(**ret));
    if (!*ret)
        return -ENOMEM;
    memcpy(*ret, synthetic_routes, sizeof(synthetic_routes));
    *ret_count = strcmp(fake->mode, "normal") == 0 || hostile ? count : 0;
    for (size_t i = 0; hostile && i < count; i++) {
        snprintf((*ret)[i].route, sizeof((*ret)[i].route), "</td><img src=x onerror=\"document.title='owned'\">\xff");
        snprintf((*ret)[i].cause, sizeof((*ret)[i].cause), "%s", (*ret)[i].route);
        snprintf((*ret)[i].service, sizeof((*ret)[i].service), "\033[2J<script>document.title='owned'</script>");
    }
    return 0;
}

static const struct service_call synthetic_calls[] = {
    {.client = "shop :8100",
     .server = "postgres :5432",
     .address = "127.0.0.1:5432",
     .protocol = "PostgreSQL",
     .calls_per_second = 2,
     .calls = 120,
     .failed = 3,
     .wait_ns = 9120 * MS,
     .p50_ns = 2 * MS,
     .p99_ns = 180 * MS,
     .kinds = {{"SELECT", 60, 9000 * MS}, {"BEGIN", 60, 120 * MS}},
     .kind_count = 2},
    {.client = "shop :8100",
     .server = "",
     .address = "10.0.0.7:6379",
     .protocol = "Redis",
     .calls_per_second = 0.5,
     .calls = 30,
     .wait_ns = 30 * MS,
     .p50_ns = 1 * MS,
     .p99_ns = 1 * MS,
     .kinds = {{"GET", 30, 30 * MS}},
     .kind_count = 1},
    {.client = "nginx.service :80",
     .server = "",
     .address = "",
     .protocol = "HTTP",
     .calls_per_second = 0.25,
     .calls = 15,
     .wait_ns = 15 * MS,
     .p50_ns = 1 * MS,
     .p99_ns = 1 * MS},
};

int fake_calls(void *context, uint64_t seconds, struct service_call **ret, size_t *ret_count)
{
    const struct fake *fake = context;
    const bool hostile = strcmp(fake->mode, "hostile") == 0;
    const size_t count = sizeof(synthetic_calls) / sizeof(synthetic_calls[0]);
    (void)seconds;
    if (strcmp(fake->mode, "failing") == 0)
        return -EIO;
    *ret = calloc(count, sizeof(**ret));
    if (!*ret)
        return -ENOMEM;
    memcpy(*ret, synthetic_calls, sizeof(synthetic_calls));
    *ret_count = strcmp(fake->mode, "normal") == 0 || hostile ? count : 0;
    for (size_t i = 0; hostile && i < count; i++) {
        snprintf((*ret)[i].client, sizeof((*ret)[i].client), "</td><img src=x onerror=\"document.title='owned'\">\xff");
        snprintf((*ret)[i].server, sizeof((*ret)[i].server), "\033[2J<script>document.title='owned'</script>");
    }
    return 0;
}

void fake_coverage(void *context, enum coverage_subject subject, uint64_t seconds, struct coverage *ret)
{
    const struct fake *fake = context;
    (void)subject;
    *ret = (struct coverage){.asked_ns = seconds * 1000 * MS, .observed_ns = seconds * 1000 * MS};
    if (strcmp(fake->mode, "hostile") == 0)
        snprintf(ret->overload, sizeof(ret->overload), "</td><img src=x onerror=\"document.title='owned'\">\033[31m");
    if (strcmp(fake->mode, "normal") == 0)
        return;
    ret->ports[ret->port_count++] = (struct opaque_port){
        .port = 8443, .protocol = OPAQUE_TLS, .process = "envoy", .bytes_per_second = 3 << 20, .connections = 12};
    ret->ports[ret->port_count++] =
        (struct opaque_port){.port = 5432, .process = "postgres", .bytes_per_second = 1 << 20};
    ret->ports_omitted = 2;
    if (strcmp(fake->mode, "large") == 0) {
        ret->observed_ns /= 2;
        coverage_add_gap(ret, COVERAGE_BUDGET, ret->observed_ns, "For a half of it budget.one_cpu was too small.");
    }
    if (strcmp(fake->mode, "empty") == 0) {
        ret->observed_ns = 0;
        coverage_add_gap(ret, COVERAGE_NOT_ATTACHED, ret->asked_ns,
                         "Requests cannot be observed: fentry: Operation not permitted. See sonde doctor.");
    }
    if (strcmp(fake->mode, "hostile") == 0) {
        snprintf(ret->ports[0].process, sizeof(ret->ports[0].process), "\033[2J<script>owned</script>\xff");
        coverage_add_gap(ret, COVERAGE_BUDGET, MS, "</td><img src=x onerror=\"document.title='owned'\">\xff");
    }
}
