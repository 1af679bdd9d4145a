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
static atomic_uint attempts, inserted, questions;
static uint64_t first_block;

/* Other numbers for each segment. */
int engine_last_blocks(struct engine *e, uint64_t ret[TABLE_COUNT], struct buf *why)
{
    (void)e;
    (void)why;
    questions++;
    for (enum table table = 0; table < TABLE_COUNT; table++)
        ret[table] = 1000 * questions + table;
    return 0;
}

/* Refuses the first segment. */
int engine_insert(struct engine *e, enum table table, uint64_t after_block, int rows_fd, struct buf *why)
{
    (void)e;
    (void)rows_fd;
    assert_int_equal(after_block % 1000, table);
    first_block = first_block ? first_block : after_block;
    if (after_block != first_block) {
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

static void begin(const char *why)
{
    reason = why;
    attempts = inserted = questions = 0;
    first_block = 0;
}

static struct spool *open_spool(void)
{
    struct spool *s = NULL;
    const struct spool_options options = {.directory = directory,
                                          .max_bytes = 1 << 20,
                                          .segment_max_bytes = 1 << 20,
                                          .segment_max_rows = 1000,
                                          .segment_max_ns = UINT64_MAX,
                                          .remember_ns = 3600000000000ull,
                                          .remember_max = 100,
                                          .unix_ns = clock_unix_ns,
                                          .monotonic_ns = clock_monotonic_ns};
    assert_int_equal(spool_open(&options, &s), 0);
    return s;
}

/* Returns how often the first of two segments was tried before it was set aside, and the second inserted. */
static unsigned load_refused(const char *why)
{
    struct loader *l = NULL;
    begin(why);
    struct spool *s = open_spool();
    append(s, 1);
    append(s, 2);
    assert_int_equal(loader_start(s, NULL, &l), 0);
    while (spool_statistics(s).segments)
        sched_yield();
    loader_free(l);
    assert_int_equal(spool_statistics(s).set_aside, 1);
    assert_int_equal(inserted, 1);
    assert_int_equal(questions, 2);
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

/* A repetition must leave out what earlier attempts, also of a former process, have inserted. */
static void test_repetitions_know_what_was_there_before_the_first_attempt(void **state)
{
    (void)state;
    begin("Code: 243. DB::Exception: (NOT_ENOUGH_SPACE)");
    for (unsigned run = 1; run <= 2; run++) {
        struct loader *l = NULL;
        struct spool *s = open_spool();
        if (run == 1)
            append(s, 1);
        assert_int_equal(loader_start(s, NULL, &l), 0);
        while (attempts < 3 * run)
            sched_yield();
        loader_free(l);
        assert_int_equal(spool_statistics(s).segments, 1);
        spool_free(s);
    }
    assert_int_equal(first_block, 1000 + TABLE_LOGS);
    assert_int_equal(questions, 1);
    assert_int_equal(inserted, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_refused_segment_is_set_aside),
        TEST(test_lack_of_memory_does_not_block_for_ever),
        TEST(test_repetitions_know_what_was_there_before_the_first_attempt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
