/* The spool without its process being killed: order, retries, restarts, limits, damage. test_spool_kill.c has kills. */
#include "server/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

#define SECOND_NS 1000000000ull

static uint64_t now_ns = 1000 * SECOND_NS, set_back_ns; /* since then, the clock was set back */

static uint64_t read_now(void)
{
    return now_ns - set_back_ns;
}

static uint64_t read_monotonic(void)
{
    return now_ns;
}

static char directory[64];

static struct spool_options options(void)
{
    return (struct spool_options){.directory = directory,
                                  .max_bytes = 100000,
                                  .segment_max_bytes = 10000,
                                  .segment_max_rows = 10,
                                  .segment_max_ns = SECOND_NS,
                                  .remember_ns = 100 * SECOND_NS,
                                  .remember_max = 1000,
                                  .unix_ns = read_now,
                                  .monotonic_ns = read_monotonic};
}

static struct spool *open_spool(void)
{
    struct spool *s = NULL;
    const struct spool_options o = options();
    assert_int_equal(spool_open(&o, &s), 0);
    return s;
}

static int append_sized(struct spool *s, uint32_t number, size_t size)
{
    _cleanup_free_ char *data = calloc(1, size);
    memcpy(data, &number, sizeof(number));
    struct spool_batch batch = {.rows = 1, .data = data, .size = size};
    memcpy(batch.key.bytes, &number, sizeof(number));
    return spool_append(s, &batch);
}

static int append(struct spool *s, uint32_t number)
{
    return append_sized(s, number, 20);
}

/* The number of the only or first batch, and how many there are; 0 batches: no closed segment. */
static size_t read_oldest(struct spool *s, struct spool_segment *ret, uint32_t *ret_first)
{
    _cleanup_buf_ struct buf contents = {0};
    struct spool_batch batch;
    size_t count = 0;
    if (spool_oldest(s, ret) < 0)
        return 0;
    assert_int_equal(spool_read(s, ret, &contents), 0);
    for (struct cursor c = cursor_make(contents.data, contents.size); spool_next_batch(&c, &batch); count++)
        if (count == 0)
            memcpy(ret_first, batch.data, sizeof(*ret_first));
    assert_int_equal(count, ret->rows);
    return count;
}

static unsigned files_in_directory(void)
{
    DIR *d = opendir(directory);
    unsigned count = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), "/tmp/sonde-test-spool-XXXXXX");
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

static void test_segments_close_by_rows_and_by_age(void **state)
{
    (void)state;
    _cleanup_(spool_freep) struct spool *s = open_spool();
    struct spool_segment segment;
    uint32_t first = 0;
    for (uint32_t i = 0; i < 11; i++)
        assert_int_equal(append(s, i), 0);
    assert_int_equal(read_oldest(s, &segment, &first), 10);
    assert_int_equal(first, 0);
    assert_int_equal(spool_remove(s, &segment), 0);
    assert_int_equal(spool_oldest(s, &segment), -EAGAIN);
    now_ns += SECOND_NS / 2;
    spool_tick(s);
    assert_int_equal(spool_oldest(s, &segment), -EAGAIN);
    now_ns += SECOND_NS;
    spool_tick(s);
    assert_int_equal(read_oldest(s, &segment, &first), 1);
    assert_int_equal(first, 10);
}

static void test_age_is_not_the_clocks(void **state)
{
    (void)state;
    _cleanup_(spool_freep) struct spool *s = open_spool();
    struct spool_segment segment;
    uint32_t first = 0;
    append(s, 1);
    set_back_ns = 50 * SECOND_NS;
    spool_tick(s);
    assert_int_equal(spool_oldest(s, &segment), -EAGAIN);
    append(s, 2);
    now_ns += SECOND_NS;
    spool_tick(s);
    set_back_ns = 0;
    assert_int_equal(read_oldest(s, &segment, &first), 2);
}

static void test_retry_is_recognised(void **state)
{
    (void)state;
    struct spool *s = open_spool();
    struct spool_segment segment;
    uint32_t first;
    assert_int_equal(append(s, 7), 0);
    assert_int_equal(append(s, 7), 1); /* in the present segment */
    spool_flush(s);
    assert_int_equal(append(s, 7), 1); /* in a closed one */
    spool_free(s);
    s = open_spool();
    assert_int_equal(append(s, 7), 1); /* after a restart */
    assert_int_equal(read_oldest(s, &segment, &first), 1);
    assert_int_equal(spool_remove(s, &segment), 0);
    assert_int_equal(append(s, 7), 1); /* after the engine has it */
    spool_free(s);
    s = open_spool();
    assert_int_equal(append(s, 7), 1); /* and a restart after that */
    assert_int_equal(spool_statistics(s).repeats, 1);
    assert_int_equal(spool_statistics(s).bytes, 0);
    now_ns += 101 * SECOND_NS;
    spool_tick(s);
    assert_int_equal(files_in_directory(), 0);
    assert_int_equal(append(s, 7), 0); /* too late */
    spool_free(s);
}

static void test_numbers_are_never_used_twice(void **state)
{
    (void)state;
    struct spool *s = open_spool();
    struct spool_segment first, second;
    uint32_t number;
    append(s, 1);
    spool_flush(s);
    assert_int_equal(read_oldest(s, &first, &number), 1);
    assert_int_equal(spool_remove(s, &first), 0);
    spool_free(s);
    now_ns -= 50 * SECOND_NS; /* the clock was set back */
    s = open_spool();
    append(s, 2);
    spool_flush(s);
    assert_int_equal(read_oldest(s, &second, &number), 1);
    assert_true(second.number > first.number);
    spool_free(s);
}

static void test_full_spool_refuses(void **state)
{
    (void)state;
    _cleanup_(spool_freep) struct spool *s = open_spool();
    struct spool_segment segment;
    uint32_t number = 0, first;
    while (append_sized(s, number, 900) == 0)
        number++;
    assert_in_range(number, 90, 111);
    assert_int_equal(append_sized(s, number, 900), -ENOSPC);
    assert_int_equal(spool_statistics(s).refused, 2);
    assert_int_equal(append_sized(s, 0, 900), 1); /* a retry of an accepted batch needs no space */
    assert_true(read_oldest(s, &segment, &first) > 0);
    assert_int_equal(spool_remove(s, &segment), 0);
    assert_int_equal(append_sized(s, number, 900), 0);
}

static void damage(size_t at_end, size_t cut)
{
    char path[400] = "";
    DIR *d = opendir(directory);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (strstr(e->d_name, ".segment"))
            snprintf(path, sizeof(path), "%s/%s", directory, e->d_name);
    closedir(d);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    _cleanup_close_ int fd = open(path, O_RDWR);
    if (at_end)
        assert_int_equal(pwrite(fd, "\xff", 1, st.st_size - (off_t)at_end), 1);
    if (cut)
        assert_int_equal(ftruncate(fd, st.st_size - (off_t)cut), 0);
}

static void check_after_damage(size_t at_end, size_t cut, size_t torn)
{
    struct spool *s = open_spool();
    struct spool_segment segment;
    uint32_t first;
    for (uint32_t i = 0; i < 3; i++)
        append(s, i);
    spool_free(s);
    damage(at_end, cut);
    s = open_spool();
    assert_int_equal(read_oldest(s, &segment, &first), 2);
    assert_int_equal(spool_statistics(s).torn_bytes, torn);
    assert_int_equal(append(s, 1), 1);
    assert_int_equal(append(s, 2), 0); /* it was not acknowledged, or is damaged */
    spool_free(s);
}

static void test_torn_end_is_dropped(void **state)
{
    (void)state;
    check_after_damage(0, 1, 59);
}

static void test_cut_header_is_dropped(void **state)
{
    (void)state;
    check_after_damage(0, 50, 10);
}

static void test_damaged_data_is_dropped(void **state)
{
    (void)state;
    check_after_damage(3, 0, 60);
}

static void test_damaged_header_is_dropped(void **state)
{
    (void)state;
    check_after_damage(45, 0, 60);
}

/* Damage before the end is not a crash's: what can be read is, and the file is kept. */
static void test_damage_before_a_whole_batch_is_kept(void **state)
{
    (void)state;
    for (size_t readable = 0; readable < 2; readable++) {
        struct spool *s = open_spool();
        _cleanup_buf_ struct buf contents = {0};
        struct spool_segment segment;
        struct spool_batch batch;
        size_t count = 0;
        for (uint32_t i = 0; i < 3; i++)
            append(s, 10 * (uint32_t)readable + i);
        spool_free(s);
        damage(180 - 60 * readable, 0); /* in the header of the first batch, or of the second one */
        s = open_spool();
        assert_int_equal(spool_oldest(s, &segment), 0);
        assert_int_equal(spool_statistics(s).torn_bytes, 0);
        assert_int_equal(segment.bytes, 180);
        assert_true(segment.rows > readable);
        assert_int_equal(spool_read(s, &segment, &contents), 0);
        for (struct cursor c = cursor_make(contents.data, contents.size); spool_next_batch(&c, &batch);)
            count++;
        assert_int_equal(count, readable);
        assert_int_equal(spool_set_aside(s, &segment), 0);
        assert_int_equal(append(s, 10 * (uint32_t)readable + 2), 0); /* it is lost, so that a retry is stored */
        spool_flush(s);
        assert_int_equal(spool_oldest(s, &segment), 0);
        assert_int_equal(spool_remove(s, &segment), 0);
        spool_free(s);
    }
}

/* A write that fails in the middle of a batch: the batch is refused, the file has no part of it, the next one works. */
static void test_failed_write_leaves_nothing(void **state)
{
    (void)state;
    struct spool *s = open_spool();
    struct spool_segment segment;
    struct rlimit before, small;
    uint32_t first;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(append(s, 1), 0);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 70;
    setrlimit(RLIMIT_FSIZE, &small);
    assert_int_equal(append(s, 2), -ENOSPC);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(read_oldest(s, &segment, &first), 1); /* closed: it takes no further batch */
    assert_int_equal(append(s, 2), 0);
    spool_free(s);
    s = open_spool();
    assert_int_equal(spool_statistics(s).torn_bytes, 0);
    assert_int_equal(spool_statistics(s).segments, 2);
    spool_free(s);
}

static void test_refused_segment_is_set_aside(void **state)
{
    (void)state;
    struct spool *s = open_spool();
    struct spool_segment segment;
    uint32_t first;
    append(s, 1);
    spool_flush(s);
    append(s, 2);
    spool_flush(s);
    assert_int_equal(read_oldest(s, &segment, &first), 1);
    assert_int_equal(spool_set_aside(s, &segment), 0);
    assert_int_equal(read_oldest(s, &segment, &first), 1);
    assert_int_equal(first, 2);
    assert_int_equal(spool_remove(s, &segment), 0);
    spool_free(s);
    s = open_spool();
    assert_int_equal(spool_oldest(s, &segment), -EAGAIN);
    assert_int_equal(spool_statistics(s).set_aside, 1);
    assert_int_equal(spool_statistics(s).bytes, 60);
    assert_int_equal(append(s, 1), 1);
    spool_free(s);
}

/* It is there after a restart, and goes with its segment; one whose segment is gone is deleted. */
static void test_beginning_of_an_insertion_is_kept(void **state)
{
    static const char before[] = "before";
    (void)state;
    struct spool *s = open_spool();
    struct spool_segment segment;
    _cleanup_buf_ struct buf found = {0};
    uint32_t first;
    append(s, 1);
    spool_flush(s);
    assert_int_equal(read_oldest(s, &segment, &first), 1);
    assert_int_equal(spool_read_begun(s, &segment, &found), -ENOENT);
    assert_int_equal(spool_begin_insertion(s, &segment, before, sizeof(before)), 0);
    spool_free(s);
    s = open_spool();
    assert_int_equal(read_oldest(s, &segment, &first), 1);
    assert_int_equal(spool_read_begun(s, &segment, &found), 0);
    assert_true(found.size == sizeof(before) && memcmp(found.data, before, sizeof(before)) == 0);
    assert_int_equal(spool_remove(s, &segment), 0);
    assert_int_equal(spool_read_begun(s, &segment, &found), -ENOENT);
    assert_int_equal(spool_begin_insertion(s, &segment, before, sizeof(before)), 0);
    spool_free(s);
    s = open_spool();
    assert_int_equal(spool_read_begun(s, &segment, &found), -ENOENT);
    spool_free(s);
}

/* Many senders of the same batches at once: each is stored once, and all are acknowledged. */
#define SENDERS 8
#define NUMBERS 50u

static void *send_all(void *spool)
{
    for (uint32_t i = 0; i < NUMBERS; i++)
        if (append(spool, i) < 0)
            return "a batch was refused";
    return NULL;
}

static void test_senders_at_once(void **state)
{
    (void)state;
    _cleanup_(spool_freep) struct spool *s = open_spool();
    pthread_t threads[SENDERS];
    struct spool_segment segment;
    uint32_t first;
    size_t count = 0;
    for (size_t i = 0; i < SENDERS; i++)
        pthread_create(&threads[i], NULL, send_all, s);
    for (size_t i = 0; i < SENDERS; i++) {
        void *why;
        pthread_join(threads[i], &why);
        assert_null(why);
    }
    spool_flush(s);
    for (size_t n; (n = read_oldest(s, &segment, &first)) > 0; count += n)
        assert_int_equal(spool_remove(s, &segment), 0);
    assert_int_equal(count, NUMBERS);
    assert_int_equal(spool_statistics(s).batches, NUMBERS);
    assert_int_equal(spool_statistics(s).repeats, (SENDERS - 1) * NUMBERS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_age_is_not_the_clocks),
        TEST(test_segments_close_by_rows_and_by_age),
        TEST(test_retry_is_recognised),
        TEST(test_numbers_are_never_used_twice),
        TEST(test_full_spool_refuses),
        TEST(test_torn_end_is_dropped),
        TEST(test_cut_header_is_dropped),
        TEST(test_damaged_data_is_dropped),
        TEST(test_damaged_header_is_dropped),
        TEST(test_damage_before_a_whole_batch_is_kept),
        TEST(test_failed_write_leaves_nothing),
        TEST(test_refused_segment_is_set_aside),
        TEST(test_beginning_of_an_insertion_is_kept),
        TEST(test_senders_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
