/* See watch.h. */
#include "watch.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

#define BATCH_BYTES (16U << 20)
#define PATIENCE_NS 60000000000ULL

const struct source_options watch_defaults = {
    .sample_hz = 199,
    .skip_self = true,
    .ring_bytes = 4U << 20,
    .table_bytes = 32U << 20,
};

struct watch watch_begin(const struct source *source, const struct source_options *options)
{
    struct watch w = {.source = source};
    struct attach_report report = {0};
    int r = source->open(options, &report, &w.self);

    if (r < 0)
        fail_msg("%s: %s: %s", source->name, strerror(-r), report.count ? report.entries[0].fallback_reason : "");
    assert_int_equal(batch_new(BATCH_BYTES, &w.batch), 0);
    assert_int_equal(source->start(w.self), 0);
    return w;
}

void watch_end(struct watch *w)
{
    struct losses losses = {0};

    w->source->losses(w->self, &losses);
    for (int i = 0; i < LOSS_COUNT; i++)
        if (losses.count[i])
            fail_msg("lost: %llu %s", (unsigned long long)losses.count[i], loss_name((enum loss_reason)i));
    w->source->free(w->self);
    batch_free(w->batch);
}

void watch_until(struct watch *w, size_t enough, bool (*check)(const struct record_header *, void *), void *context)
{
    uint64_t end_ns = clock_monotonic_ns() + PATIENCE_NS;
    size_t seen = 0;

    while (seen < enough) {
        usleep(20000);
        batch_begin(w->batch, UINT64_MAX); /* does not wait for another source */
        assert_int_equal(w->source->drain(w->self, w->batch), 0);
        batch_end(w->batch, UINT64_MAX);
        for (size_t i = 0; i < batch_count(w->batch); i++)
            seen += check(batch_get(w->batch, i), context);
        batch_clear(w->batch);
        if (clock_monotonic_ns() > end_ns)
            fail_msg("%zu of %zu records within a minute", seen, enough);
    }
}

pid_t watch_child(void (*work)(int ready))
{
    int ends[2];
    char byte;

    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        work(ends[1]);
        _exit(1);
    }
    close(ends[1]);
    const ssize_t n = read(ends[0], &byte, 1);
    close(ends[0]);
    assert_int_equal(n, 1);
    return pid;
}

bool watch_set_online(unsigned cpu, bool online)
{
    char path[64];
    FILE *file;
    bool done;

    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
    file = fopen(path, "we");
    if (!file)
        return false;
    done = fputs(online ? "1" : "0", file) >= 0 && fflush(file) == 0;
    return fclose(file) == 0 && done;
}
