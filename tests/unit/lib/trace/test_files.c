/* The files: rotation, existing files of other writers, failed writes, moved files, and fork. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void requests(struct fixture *f, int n)
{
    for (int i = 0; i < n; i++)
        sonde_trace_end(sonde_trace_start(f->model, NULL), SONDE_TRACE_OK, NULL);
    assert_int_equal(sonde_trace_manager_flush(f->manager, 20000), 0);
}

/* Number of requests in a file; -1: no file. Complete arrays only. */
static int count(const struct fixture *f, const char *suffix)
{
    char *text = fixture_read(f, suffix);
    int n = 0;
    if (!text)
        return -1;
    size_t size = strlen(text);
    assert_true(size >= 2 && text[0] == '[' && text[size - 1] == ']');
    for (const char *p = text; (p = strstr(p, "\"model_name\"")); p++)
        n++;
    free(text);
    return n;
}

static void touch(const struct fixture *f, const char *suffix, const char *text)
{
    char path[160];
    snprintf(path, sizeof(path), "%s%s", f->file, suffix);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static void post(struct fixture *f, const char *body)
{
    char *answer;
    unsigned status;
    assert_int_equal(sonde_trace_http(f->manager, "POST", "/v2/trace/setting", body, strlen(body), &status, &answer),
                     0);
    assert_int_equal(status, 200);
    sonde_trace_free(answer);
}

static void test_file_rotation(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS", "triton,log-frequency=3");
    requests(&f, 8);
    assert_int_equal(count(&f, ""), -1);
    assert_int_equal(count(&f, ".0"), 3);
    assert_int_equal(count(&f, ".1"), 3);
    assert_int_equal(count(&f, ".2"), 2);
    requests(&f, 1);
    assert_int_equal(count(&f, ".2"), 3);
    assert_int_equal(count(&f, ".3"), -1);
    /* Files of an old setting stay as they are; the new setting starts the next file. */
    requests(&f, 1);
    post(&f, "{\"log_frequency\":\"2\"}");
    requests(&f, 3);
    assert_int_equal(count(&f, ".3"), 1);
    assert_int_equal(count(&f, ".4"), 2);
    assert_int_equal(count(&f, ".5"), 1);
    post(&f, "{\"log_frequency\":\"0\"}");
    requests(&f, 5);
    assert_int_equal(count(&f, ""), 5);
    fixture_close(&f);
}

static void test_models_with_own_frequency_do_not_share_files(void **state)
{
    (void)state;
    struct fixture f;
    struct sonde_trace_model *other;
    char *answer;
    unsigned status;
    static const char body[] = "{\"log_frequency\":\"3\"}";
    fixture_open(&f, "rate=1", "level=TIMESTAMPS", "triton,log-frequency=2");
    assert_int_equal(sonde_trace_model_new(f.manager, "other", 1, &other), 0);
    assert_int_equal(
        sonde_trace_http(f.manager, "POST", "/v2/models/other/trace/setting", body, sizeof(body) - 1, &status, &answer),
        0);
    sonde_trace_free(answer);
    for (int i = 0; i < 3; i++) {
        sonde_trace_end(sonde_trace_start(f.model, NULL), SONDE_TRACE_OK, NULL);
        sonde_trace_end(sonde_trace_start(other, NULL), SONDE_TRACE_OK, NULL);
    }
    sonde_trace_model_free(other);
    requests(&f, 0);
    assert_int_equal(count(&f, ".0"), 2);
    assert_int_equal(count(&f, ".1"), 3);
    assert_int_equal(count(&f, ".2"), 1);
    char *text = fixture_read(&f, ".1");
    assert_null(strstr(text, "\"m\""));
    free(text);
    fixture_close(&f);
}

static void test_existing_files_are_kept(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    touch(&f, "", "[\"old\"]");
    touch(&f, ".old.1", "[\"older\"]");
    requests(&f, 1);
    assert_int_equal(count(&f, ""), 1);
    fixture_expect(&f, ".old.1", "[\"older\"]");
    fixture_expect(&f, ".old.2", "[\"old\"]");
    assert_int_equal(unlink(f.file), 0);
    touch(&f, "", ""); /* an empty file need not be kept */
    requests(&f, 1);
    assert_int_equal(count(&f, ""), 1);
    assert_int_equal(count(&f, ".old.3"), -1);
    touch(&f, ".0", "[0]");
    touch(&f, ".2", "[2]");
    post(&f, "{\"log_frequency\":\"1\"}");
    requests(&f, 3);
    fixture_expect(&f, ".0", "[0]");
    fixture_expect(&f, ".2", "[2]");
    assert_int_equal(count(&f, ".1") + count(&f, ".3") + count(&f, ".4"), 3);
    fixture_close(&f);
}

/* Two servers with one setting: the second does not replace the first one's file. */
static void test_file_of_another_writer_is_kept(void **state)
{
    (void)state;
    struct fixture f;
    char suffix[32];
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    touch(&f, "", "[]");
    int fd = open(f.file, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    requests(&f, 2);
    fixture_expect(&f, "", "[]");
    snprintf(suffix, sizeof(suffix), ".p%d", (int)getpid());
    assert_int_equal(count(&f, suffix), 2);
    close(fd);
    requests(&f, 1);
    assert_int_equal(count(&f, suffix), 3);
    fixture_close(&f);
}

static void test_moved_or_truncated_file_is_recreated(void **state)
{
    (void)state;
    struct fixture f;
    char moved[160];
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    requests(&f, 2);
    snprintf(moved, sizeof(moved), "%s.moved", f.file);
    assert_int_equal(rename(f.file, moved), 0);
    requests(&f, 1);
    assert_int_equal(count(&f, ""), 1);
    assert_int_equal(count(&f, ".moved"), 2);
    assert_int_equal(unlink(f.file), 0);
    requests(&f, 1);
    assert_int_equal(count(&f, ""), 1);
    assert_int_equal(truncate(f.file, 5), 0); /* from then on it is another writer's, and is kept under another name */
    requests(&f, 1);
    assert_int_equal(count(&f, ""), 1);
    struct sonde_trace_stats s = fixture_stats(&f);
    assert_int_equal(s.written, 5);
    assert_int_equal(s.write_errors, 0);
    fixture_close(&f);
}

/* The directory does not exist at first. */
static void test_errors_are_reported_once_and_counted(void **state)
{
    (void)state;
    struct fixture f;
    char away[96];
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    snprintf(away, sizeof(away), "%s.away", f.folder);
    assert_int_equal(rename(f.folder, away), 0);
    requests(&f, 1);
    requests(&f, 1);
    assert_int_equal(f.errors, 1);
    assert_int_equal(f.error, ENOENT);
    assert_non_null(strstr(f.message, f.file));
    assert_non_null(strstr(f.message, "No such file or directory"));
    struct sonde_trace_stats s = fixture_stats(&f);
    assert_int_equal(s.dropped_write, 2);
    assert_int_equal(s.write_errors, 2);
    assert_int_equal(rename(away, f.folder), 0);
    requests(&f, 1);
    assert_int_equal(count(&f, ""), 1);
    assert_int_equal(f.errors, 1);
    assert_int_equal(rename(f.folder, away), 0);
    requests(&f, 1);
    assert_int_equal(f.errors, 2);
    assert_int_equal(rename(away, f.folder), 0);
    fixture_close(&f);
}

/* A file that may not grow: its array stays complete, and it grows again when allowed. RLIMIT_FSIZE stands in for a
 * full disk (tests/faults uses a real one). */
static void test_failed_write_leaves_the_array_closed(void **state)
{
    (void)state;
    struct fixture f;
    struct rlimit before, small = {0};
    struct stat st;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    requests(&f, 3);
    char *text = fixture_read(&f, "");
    assert_int_equal(stat(f.file, &st), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){(rlim_t)st.st_size + 7, before.rlim_max}; /* the next write is cut after 7 bytes */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    requests(&f, 2);
    fixture_expect(&f, "", text);
    assert_int_equal(f.error, EFBIG);
    assert_int_equal(fixture_stats(&f).dropped_write, 2);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    requests(&f, 1);
    assert_int_equal(count(&f, ""), 4);
    free(text);
    fixture_close(&f);
}

static void test_special_file_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    assert_int_equal(mkfifo(f.file, 0600), 0);
    requests(&f, 1);
    assert_int_equal(f.error, EEXIST);
    assert_int_equal(fixture_stats(&f).dropped_write, 1);
    struct stat st;
    assert_int_equal(lstat(f.file, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    fixture_close(&f);
}

/* More finished requests than the queue holds: those that do not fit are counted, the others written. The writer is
 * blocked in on_error, as by a hanging disk. */
static pthread_mutex_t hold = PTHREAD_MUTEX_INITIALIZER;

static void hang(void *argument, int error, const char *message)
{
    (void)argument;
    (void)error;
    (void)message;
    pthread_mutex_lock(&hold);
    pthread_mutex_unlock(&hold);
}

static void test_full_queue_drops_and_counts(void **state)
{
    (void)state;
    struct sonde_trace_config *config;
    struct sonde_trace_manager *m;
    struct sonde_trace_model *model;
    struct sonde_trace_options options = {sizeof(options), .queue_traces_max = 4, .on_error = hang};
    assert_int_equal(sonde_trace_config_new(&config), 0);
    assert_int_equal(sonde_trace_config_set(config, "--trace-config", "triton,file=/nonexistent/t.json", NULL, 0), 0);
    assert_int_equal(sonde_trace_config_set(config, "--trace-config", "rate=1", NULL, 0), 0);
    assert_int_equal(sonde_trace_config_set(config, "--trace-config", "level=TIMESTAMPS", NULL, 0), 0);
    assert_int_equal(sonde_trace_manager_new(config, &options, &m, NULL, 0), 0);
    assert_int_equal(sonde_trace_model_new(m, "m", 1, &model), 0);
    struct sonde_trace_stats s;
    pthread_mutex_lock(&hold);
    for (int i = 0; i < 100; i++)
        sonde_trace_end(sonde_trace_start(model, NULL), SONDE_TRACE_OK, NULL);
    assert_int_equal(sonde_trace_manager_flush(m, 10), -ETIMEDOUT);
    sonde_trace_manager_stats(m, &s, sizeof(s));
    assert_int_equal(s.sampled, 100);
    assert_true(s.dropped_queue >= 92 && s.dropped_queue <= 96);
    pthread_mutex_unlock(&hold);
    assert_int_equal(sonde_trace_manager_flush(m, 20000), 0);
    sonde_trace_manager_stats(m, &s, sizeof(s));
    assert_int_equal(s.dropped_queue + s.dropped_write, 100);
    sonde_trace_model_free(model);
    sonde_trace_manager_free(m);
    sonde_trace_config_free(config);
}

/* A request in flight at a fork belongs to the parent; the child has its own file and thread. */
static void test_fork_during_a_request(void **state)
{
    (void)state;
    fixture_need_threads_after_fork();
    struct fixture f;
    char suffix[32];
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    requests(&f, 1);
    struct sonde_trace *t = sonde_trace_start(f.model, NULL), *child = sonde_trace_child(t, f.model);
    sonde_trace_timestamp(t, SONDE_TRACE_REQUEST_START);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(30);
        sonde_trace_timestamp(t, SONDE_TRACE_REQUEST_END);
        sonde_trace_end(child, SONDE_TRACE_OK, NULL);
        sonde_trace_end(t, SONDE_TRACE_OK, NULL);
        int bad = sonde_trace_child(t, f.model) != NULL || fixture_stats(&f).sampled != 0;
        sonde_trace_end(sonde_trace_start(f.model, NULL), SONDE_TRACE_OK, NULL);
        sonde_trace_end(sonde_trace_start(f.model, NULL), SONDE_TRACE_OK, NULL);
        bad |= sonde_trace_manager_flush(f.manager, 20000) != 0;
        bad |= fixture_stats(&f).written != 2;
        _exit(bad);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    sonde_trace_timestamp(child, SONDE_TRACE_REQUEST_START);
    sonde_trace_end(child, SONDE_TRACE_OK, NULL);
    requests(&f, 1);
    assert_int_equal(count(&f, ""), 4);
    snprintf(suffix, sizeof(suffix), ".p%d", (int)pid);
    assert_int_equal(count(&f, suffix), 2);
    fixture_close(&f);
}

int main(void)
{
    signal(SIGXFSZ, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_rotation),
        cmocka_unit_test(test_models_with_own_frequency_do_not_share_files),
        cmocka_unit_test(test_existing_files_are_kept),
        cmocka_unit_test(test_file_of_another_writer_is_kept),
        cmocka_unit_test(test_moved_or_truncated_file_is_recreated),
        cmocka_unit_test(test_errors_are_reported_once_and_counted),
        cmocka_unit_test(test_failed_write_leaves_the_array_closed),
        cmocka_unit_test(test_special_file_is_refused),
        cmocka_unit_test(test_full_queue_drops_and_counts),
        cmocka_unit_test(test_fork_during_a_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
