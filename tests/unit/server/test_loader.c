/* Segments that the engine does not take; an engine of the test's own refuses them. */
#include "server/loader.h"

#include "base/clock.h"
#include "base/log.h"
#include "server/batch.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[64];
static const char *reason;
static atomic_uint attempts, inserted;
static uint64_t first_token;

/* Refuses the first segment. */
int engine_insert(struct engine *e, enum table table, uint64_t token, int rows_fd, struct buf *why)
{
    (void)e;
    (void)table;
    (void)rows_fd;
    first_token = first_token ? first_token : token;
    if (token != first_token) {
        inserted++;
        return 0;
    }
    attempts++;
    buf_puts(why, reason);
    return -EPROTO;
}

/* The loader's pauses are over at once. */
int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict lock,
                           const struct timespec *restrict until)
{
    (void)c;
    (void)lock;
    (void)until;
    sched_yield();
    return ETIMEDOUT;
}

static int make_directory(void **state)
{
    (void)state;
    log_set_level(LOG_LEVEL_ERROR);
    snprintf(directory, sizeof(directory), "/tmp/sonde-test-loader-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    char path[400];
    (void)state;
    DIR *d = opendir(directory);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/%s", directory, e->d_name);
            unlink(path);
        }
    closedir(d);
    return rmdir(directory);
}

static void append(struct spool *s, uint8_t number)
{
    _cleanup_buf_ struct buf data = {0}, rows = {0};
    buf_putc(&rows, (char)number);
    batch_put_rows(&data, TABLE_LOGS, &rows);
    const struct spool_batch batch = {.key.bytes = {number}, .rows = 1, .data = data.data, .size = data.size};
    assert_int_equal(spool_append(s, &batch), 0);
    spool_flush(s);
}

/* Returns how often the first of two segments was tried before it was set aside, and the second inserted. */
static unsigned load_refused(const char *why)
{
    const struct spool_options options = {.directory = directory,
                                          .max_bytes = 1 << 20,
                                          .segment_max_bytes = 1 << 20,
                                          .segment_max_rows = 1000,
                                          .segment_max_ns = UINT64_MAX,
                                          .remember_ns = 3600000000000ull,
                                          .remember_max = 100,
                                          .unix_ns = clock_unix_ns,
                                          .monotonic_ns = clock_monotonic_ns};
    struct spool *s = NULL;
    struct loader *l = NULL;
    reason = why;
    attempts = inserted = 0;
    first_token = 0;
    assert_int_equal(spool_open(&options, &s), 0);
    append(s, 1);
    append(s, 2);
    assert_int_equal(loader_start(s, NULL, &l), 0);
    while (spool_statistics(s).segments)
        sched_yield();
    loader_free(l);
    assert_int_equal(spool_statistics(s).set_aside, 1);
    assert_int_equal(inserted, 1);
    spool_free(s);
    return attempts;
}

static void test_refused_segment_is_set_aside(void **state)
{
    (void)state;
    assert_int_equal(load_refused("Code: 1. DB::Exception: (UNSUPPORTED_METHOD)"), 5);
}

static void test_lack_of_memory_does_not_block_for_ever(void **state)
{
    (void)state;
    assert_int_equal(load_refused("Code: 241. DB::Exception: (MEMORY_LIMIT_EXCEEDED)"), 60);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_refused_segment_is_set_aside),
        TEST(test_lack_of_memory_does_not_block_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
