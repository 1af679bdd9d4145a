/* See watch.h. */
#include "watch.h"

#include "signals/signals.h"

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

const struct watch_options watch_defaults = {
    .filter.skip_self = true,
    .sample_hz = 199,
    .ring_bytes = 4U << 20,
    .table_bytes = 32U << 20,
};

struct shared_tables *watch_tables(const struct watch_options *options, bool links)
{
    const struct shared_tables_options wanted = {
        .filter = &options->filter, .rules = options->rules, .unwind_bytes = options->table_bytes, .links = links};
    struct shared_tables *tables;

    assert_int_equal(shared_tables_new(&wanted, &tables), 0);
    return tables;
}

struct source_services watch_services(const struct watch_options *options, struct shared_tables *tables)
{
    return (struct source_services){.tables = tables,
                                    .filter = &options->filter,
                                    .ring_bytes = options->ring_bytes,
                                    .sample_hz = options->sample_hz,
                                    .rules = options->rules,
                                    .event = options->event,
                                    .sampling_seed = options->sampling_seed};
}

struct watch watch_begin(const struct source *source, const struct watch_options *options)
{
    struct watch w = {.source = source, .tables = options->tables, .shares_tables = options->tables};
    struct attach_report report = {0};

    if (!w.tables)
        w.tables = watch_tables(options, false);
    const struct source_services services = watch_services(options, w.tables);
    int r = source->open(&services, options->settings ? options->settings : &options->off_cpu, &report, &w.self);
    if (r < 0)
        fail_msg("%s: %s: %s", source->name, strerror(-r), report.count ? report.entries[0].fallback_reason : "");
    assert_int_equal(batch_new(BATCH_BYTES, signals_check_record, &w.batch), 0);
    assert_int_equal(source->start(w.self), 0);
    return w;
}

struct unwind_tables *watch_unwind_tables(const struct watch *w)
{
    return shared_tables_unwind(w->tables);
}

struct losses watch_losses(const struct watch *w)
{
    struct losses losses = {0};

    w->source->losses(w->self, &losses);
    if (!w->shares_tables)
        shared_tables_losses(w->tables, &losses);
    return losses;
}

void watch_end_despite(struct watch *w, uint64_t allowed)
{
    const struct losses losses = watch_losses(w);

    for (int i = 0; i < LOSS_COUNT; i++)
        if (losses.count[i] && !(allowed & 1ULL << i))
            fail_msg("lost: %llu %s", (unsigned long long)losses.count[i], loss_name((enum loss_reason)i));
    w->source->free(w->self);
    if (!w->shares_tables)
        shared_tables_free(w->tables);
    batch_free(w->batch);
}

void watch_end(struct watch *w)
{
    watch_end_despite(w, 0);
}

void watch_until(struct watch *w, size_t enough, bool (*check)(const struct record_header *, void *), void *context)
{
    uint64_t end_ns = clock_monotonic_ns() + PATIENCE_NS;
    size_t seen = 0;

    while (seen < enough) {
        usleep(20000);
        batch_begin(w->batch, UINT64_MAX); /* does not wait for another source */
        assert_int_equal(w->source->drain(w->self, w->batch), 0);
        shared_tables_follow(w->tables, clock_monotonic_ns());
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
