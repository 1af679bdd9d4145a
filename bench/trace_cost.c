/* The cost of tracing for the thread that serves a request: `trace-cost` prints nanoseconds, the median of rounds,
 * after the cost of a clock read alone. The queue never fills: it is flushed between rounds, outside of the
 * measurement; the last line is the CPU time of the writer thread. docs/traces.md lists the targets. With a
 * receiver's URL it also measures mode opentelemetry: `trace-cost http://...`. */
#include "bench.h"

#include <sonde/trace.h>

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define ROUNDS 21

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static struct sonde_trace_manager *manager;
static struct sonde_trace_model *model;

static void succeed(int r, const char *what)
{
    if (r == 0)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(-r));
    exit(1);
}

static void open_manager(const char *first, const char *const *settings)
{
    char why[SONDE_TRACE_WHY_SIZE];
    struct sonde_trace_config *config;
    struct sonde_trace_options options = {
        .size = sizeof(options), .queue_traces_max = 1 << 20, .queue_bytes_max = 1 << 30};
    succeed(sonde_trace_config_new(&config), "config");
    succeed(sonde_trace_config_set(config, "--trace-config", first, why, sizeof(why)), first);
    for (; *settings; settings++)
        succeed(sonde_trace_config_set(config, "--trace-config", *settings, why, sizeof(why)), *settings);
    succeed(sonde_trace_manager_new(config, &options, &manager, why, sizeof(why)), "manager");
    succeed(sonde_trace_model_new(manager, "simple", 1, &model), "model");
    sonde_trace_config_free(config);
}

static void close_manager(void)
{
    sonde_trace_model_free(model);
    sonde_trace_manager_free(manager);
}

static void read_clock(int n)
{
    for (int i = 0; i < n; i++)
        (void)sonde_trace_now_ns();
}

static void ask(int n)
{
    for (int i = 0; i < n; i++)
        sonde_trace_end(sonde_trace_start(model, NULL), SONDE_TRACE_OK, NULL);
}

/* Enters and leaves a request; no tracer is attached. */
static void enter_and_leave(int n)
{
    struct sonde_trace *t = sonde_trace_start(model, NULL);
    for (int i = 0; i < n; i++) {
        sonde_trace_enter(t);
        sonde_trace_leave(t);
    }
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
}

/* One long request: timestamps only. */
static void stamp(int n)
{
    struct sonde_trace *t = sonde_trace_start(model, NULL);
    for (int i = 0; i < n; i++)
        sonde_trace_timestamp(t, SONDE_TRACE_QUEUE_START);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
}

/* What Triton records of a request over HTTP: 12 timestamps and the id. */
static void trace_fully(int n)
{
    static const enum sonde_trace_activity activities[] = {
        SONDE_TRACE_HTTP_RECV_START,      SONDE_TRACE_HTTP_RECV_END,           SONDE_TRACE_REQUEST_START,
        SONDE_TRACE_QUEUE_START,          SONDE_TRACE_COMPUTE_START,           SONDE_TRACE_COMPUTE_INPUT_END,
        SONDE_TRACE_COMPUTE_OUTPUT_START, SONDE_TRACE_INFER_RESPONSE_COMPLETE, SONDE_TRACE_COMPUTE_END,
        SONDE_TRACE_REQUEST_END,          SONDE_TRACE_HTTP_SEND_START,         SONDE_TRACE_HTTP_SEND_END,
    };
    struct sonde_trace_request request = {sizeof(request), "request-17", 10, NULL};
    for (int i = 0; i < n; i++) {
        struct sonde_trace *t = sonde_trace_start(model, &request);
        for (size_t j = 0; j < sizeof(activities) / sizeof(activities[0]); j++)
            sonde_trace_timestamp(t, activities[j]);
        sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    }
}

/* One long generation, a token at a time. */
static void emit(struct sonde_trace *t, int n)
{
    struct sonde_trace_generation g;
    sonde_trace_generation_begin(&g, model, t, "chat");
    for (int i = 0; i < n; i++)
        sonde_trace_generation_tokens(&g, 1);
    sonde_trace_generation_end(&g, NULL);
}

static void emit_untraced(int n)
{
    emit(NULL, n);
}

static void emit_traced(int n)
{
    struct sonde_trace *t = sonde_trace_start(model, NULL);
    emit(t, n);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
}

/* Short generations: the cost of counting a generation, besides its tokens. */
static void generate(int n)
{
    const struct sonde_trace_generation_result result = {
        .size = sizeof(result), .input_tokens = 10, .output_tokens = -1, .finish_reason = "stop"};
    struct sonde_trace_generation g;
    for (int i = 0; i < n; i++) {
        sonde_trace_generation_begin(&g, model, NULL, "chat");
        sonde_trace_generation_tokens(&g, 1);
        sonde_trace_generation_end(&g, &result);
    }
}

/* Sets the semaphores of the provider `sonde_trace` as the kernel does for a tracer; the stubs stay empty. */
static void attach(uint16_t by)
{
    char line[512];
    unsigned long at;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof(line), maps))
        if (strstr(line, " rw-p ") && strstr(line, "/memfd:sonde_trace") && sscanf(line, "%lx", &at) == 1)
            for (int i = 0; i < 4; i++)
                ((volatile uint16_t *)at)[i] = by;
    if (maps)
        fclose(maps);
}

static void measure(const char *name, void (*work)(int), int n, const char *target)
{
    double rounds[ROUNDS];
    work(n);
    for (int i = 0; i < ROUNDS; i++) {
        if (manager)
            sonde_trace_manager_flush(manager, 60000);
        double began = now_ns();
        work(n);
        rounds[i] = (now_ns() - began) / n;
    }
    qsort(rounds, ROUNDS, sizeof(rounds[0]), compare);
    printf("%-44s %8.1f   %s\n", name, rounds[ROUNDS / 2], target);
}

static double cpu_ns(int who)
{
    struct rusage u;
    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e9 +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e3;
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void measure_traced(void)
{
    double all = cpu_ns(RUSAGE_SELF), own = cpu_ns(RUSAGE_THREAD);
    struct sonde_trace_stats before, after;
    sonde_trace_manager_stats(manager, &before, sizeof(before));
    measure("a request with 12 timestamps", trace_fully, 2000, "2000");
    sonde_trace_manager_flush(manager, 60000);
    sonde_trace_manager_stats(manager, &after, sizeof(after));
    double writer = cpu_ns(RUSAGE_SELF) - all - (cpu_ns(RUSAGE_THREAD) - own);
    printf("%-44s %8.1f\n", "  the writer's CPU for it", writer / (double)(after.written - before.written));
    if (after.dropped_queue || after.dropped_write)
        printf("%llu traces were lost\n", (unsigned long long)(after.dropped_queue + after.dropped_write));
}

static void measure_opentelemetry(const char *url)
{
    char option[300];
    snprintf(option, sizeof(option), "opentelemetry,url=%s", url);
    open_manager(option,
                 LIST("mode=opentelemetry", "level=TIMESTAMPS", "rate=1", "opentelemetry,bsp_max_queue_size=1000000"));
    printf("mode opentelemetry\n");
    measure_traced();
    close_manager();
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/sonde-trace-cost-XXXXXX", file[64], option[80];
    if (!mkdtemp(folder))
        return 1;
    snprintf(file, sizeof(file), "%s/t.json", folder);
    snprintf(option, sizeof(option), "triton,file=%s", file);
    printf("%-44s %8s   %s\n", "nanoseconds", "median", "to reach");
    measure("reading the clock", read_clock, 100000, "");

    open_manager(option, LIST("level=OFF"));
    measure("a request, tracing is off", ask, 100000, "5");
    close_manager();
    open_manager(option, LIST("level=TIMESTAMPS", "rate=1000000000"));
    measure("a request that is not sampled", ask, 100000, "5");
    measure("  with its 12 timestamps", trace_fully, 100000, "");
    measure("  a token of its answer", emit_untraced, 100000, "10");
    measure("  an answer of one token, counted", generate, 20000, "500");
    attach(1);
    measure("  the same, a tracer is attached", trace_fully, 10000, "");
    attach(0);
    close_manager();
    open_manager(option, LIST("level=TIMESTAMPS", "rate=1"));
    measure("a timestamp, clock included", stamp, 2000, "150");
    measure("a token, clock included", emit_traced, 2000, "150");
    measure("to enter a request and leave it", enter_and_leave, 100000, "");
    measure_traced();
    close_manager();
    unlink(file);
    rmdir(folder);
    if (argc > 1)
        measure_opentelemetry(argv[1]);
    return 0;
}
