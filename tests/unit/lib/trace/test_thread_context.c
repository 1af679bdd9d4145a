/* The request a thread works for, as a reader of OTEP 4947 sees it: through the thread-local variable and its record,
 * also from a signal handler during a change. tests/e2e/test_trace_probes.py reads it from outside with a debugger. */
#include "../../forbid.h"
#include "listener.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Declared from the OTEP's text, not from our header. */
extern __thread const unsigned char *otel_thread_ctx_v1;

struct seen {
    uint64_t high, low, span_id;
    unsigned flags, attributes_size;
    char attributes[110];
};

static uint64_t number_at(const unsigned char *p)
{
    uint64_t number = 0;
    for (int i = 0; i < 8; i++)
        number = number << 8 | p[i];
    return number;
}

/* false: the thread has no request. */
static bool read_context(struct seen *s)
{
    const unsigned char *r = *(const unsigned char *volatile *)&otel_thread_ctx_v1;
    *s = (struct seen){0};
    if (!r)
        return false;
    assert_int_equal((uintptr_t)r % 2, 0);
    assert_int_equal(r[24], 1);
    uint16_t size;
    memcpy(&size, r + 26, sizeof(size));
    assert_true(size < sizeof(s->attributes));
    s->high = number_at(r);
    s->low = number_at(r + 8);
    s->span_id = number_at(r + 16);
    s->flags = r[25];
    s->attributes_size = size;
    memcpy(s->attributes, r + 28, size);
    return true;
}

/* Whether the thread works for the nth started request, from 0; -1: for none. */
static bool works_for(int n)
{
    struct seen s;
    bool busy = read_context(&s);
    if (n < 0)
        return !busy;
    const struct firing *f = &firings[n];
    return busy && s.high == f->high && s.low == f->low && s.span_id == f->span_id;
}

static void test_nested_requests(void **state)
{
    (void)state;
    struct fixture f;
    struct seen s;
    fixture_open(&f, "rate=2", "level=TIMESTAMPS");
    listen_to_all(1);
    struct sonde_trace *a = sonde_trace_start(f.model, NULL), *b = sonde_trace_start(f.model, NULL),
                       *c = sonde_trace_child(b, f.model);
    assert_true(works_for(-1));
    sonde_trace_enter(NULL);
    sonde_trace_leave(NULL);
    sonde_trace_leave(a);
    assert_true(works_for(-1));
    assert_int_equal(firing_count, 3);
    sonde_trace_enter(a);
    assert_true(works_for(0));
    sonde_trace_enter(b);
    assert_true(works_for(1));
    sonde_trace_enter(c);
    assert_true(works_for(2) && read_context(&s));
    assert_int_equal(s.flags, 0); /* none of its spans is exported */
    assert_int_equal(s.attributes_size, 3);
    assert_memory_equal(s.attributes, "\0\1m", 3);
    sonde_trace_leave(b); /* not the innermost */
    assert_true(works_for(2));
    sonde_trace_leave(c);
    assert_true(works_for(0));
    sonde_trace_leave(c);
    sonde_trace_leave(a);
    assert_true(works_for(-1));
    const int probes[] = {HEARD_THREAD_ENTER, HEARD_THREAD_ENTER, HEARD_THREAD_ENTER,
                          HEARD_THREAD_LEAVE, HEARD_THREAD_LEAVE, HEARD_THREAD_LEAVE},
              whose[] = {0, 1, 2, 2, 0, -1};
    assert_int_equal(firing_count, 9);
    for (int i = 0; i < 6; i++) {
        const struct firing *fired = &firings[3 + i], *who = whose[i] < 0 ? NULL : &firings[whose[i]];
        assert_int_equal(fired->probe, probes[i]);
        assert_int_equal(fired->span_id, who ? who->span_id : 0);
        assert_int_equal(fired->high, who ? who->high : 0);
        assert_int_equal(fired->low, who ? who->low : 0);
        assert_int_equal(fired->id, who ? who->id : 0);
    }
    listen_to_all(-1);
    sonde_trace_end(a, SONDE_TRACE_OK, NULL);
    sonde_trace_end(b, SONDE_TRACE_OK, NULL);
    sonde_trace_end(c, SONDE_TRACE_OK, NULL);
    fixture_close(&f);
}

/* When nesting exceeds the maximum depth, the outermost is forgotten, never the innermost. */
static void test_nesting_beyond_the_maximum_depth(void **state)
{
    (void)state;
    enum { DEEP = SONDE_TRACE_NESTING_MAX + 3 };
    struct sonde_trace *t[DEEP];
    struct fixture f;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    listen_to_all(1);
    for (int i = 0; i < DEEP; i++)
        t[i] = sonde_trace_start(f.model, NULL);
    attach_to(HEARD_THREAD_ENTER, -1);
    attach_to(HEARD_THREAD_LEAVE, -1);
    for (int i = 0; i < DEEP; i++) {
        sonde_trace_enter(t[i]);
        assert_true(works_for(i));
    }
    for (int i = DEEP; i-- > 0;) {
        assert_true(works_for(i >= DEEP - SONDE_TRACE_NESTING_MAX ? i : -1));
        sonde_trace_leave(t[i]);
    }
    assert_true(works_for(-1));
    for (int i = 0; i < 5; i++) /* the same again and again */
        sonde_trace_enter(t[0]);
    sonde_trace_enter(t[1]);
    for (int i = 0; i < 5; i++) {
        sonde_trace_leave(t[0]);
        assert_true(works_for(1));
    }
    sonde_trace_leave(t[1]);
    assert_true(works_for(-1));
    for (int i = 0; i < DEEP; i++)
        sonde_trace_end(t[i], SONDE_TRACE_OK, NULL);
    attach_to(HEARD_REQUEST_START, -1);
    attach_to(HEARD_REQUEST_END, -1);
    fixture_close(&f);
}

static void *end_of(void *t)
{
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    return NULL;
}

static void *enter_and_exit(void *t)
{
    sonde_trace_enter(t);
    return otel_thread_ctx_v1 ? NULL : t;
}

static void on_a_thread(void *(*run)(void *), struct sonde_trace *t)
{
    pthread_t thread;
    void *bad;
    assert_int_equal(pthread_create(&thread, NULL, run, t), 0);
    assert_int_equal(pthread_join(thread, &bad), 0);
    assert_null(bad);
}

static void test_request_ending_while_a_thread_works_on_it(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    listen_to_all(1);
    struct sonde_trace *a = sonde_trace_start(f.model, NULL), *b = sonde_trace_start(f.model, NULL),
                       *c = sonde_trace_start(f.model, NULL);
    on_a_thread(enter_and_exit, a);
    assert_true(works_for(-1));
    sonde_trace_enter(a);
    sonde_trace_enter(b);
    sonde_trace_enter(b);
    sonde_trace_end(b, SONDE_TRACE_OK, NULL); /* by the thread itself: this also leaves it */
    assert_true(works_for(0));
    assert_int_equal(firings[firing_count - 2].probe, HEARD_THREAD_LEAVE);
    assert_int_equal(firings[firing_count - 1].probe, HEARD_REQUEST_END);
    sonde_trace_enter(c);
    on_a_thread(end_of, c); /* by another thread: it must still be left, also after its manager is freed */
    assert_true(works_for(2));
    listen_to_all(-1);
    sonde_trace_end(a, SONDE_TRACE_OK, NULL);
    fixture_close(&f);
    sonde_trace_leave(c);
    assert_true(works_for(-1));
}

/* --- torn records ---------------------------------------------------------------------------- */

#define MODELS 4
#define LOOKS  20000

static struct {
    volatile sig_atomic_t busy,
        bad; /* handler runs that found a request, and those that found an inconsistent record */
    atomic_bool enough;
    struct firing expected[MODELS];
} watch;

static void check_in_handler(int signal)
{
    (void)signal;
    struct seen s;
    if (!read_context(&s))
        return;
    watch.busy++;
    for (int i = 0; i < MODELS; i++) {
        const struct firing *f = &watch.expected[i];
        if (s.span_id == f->span_id) {
            bool same = s.high == f->high && s.low == f->low && s.attributes_size == 2 + strlen(f->model) &&
                        memcmp(s.attributes + 2, f->model, strlen(f->model)) == 0;
            watch.bad += !same;
            return;
        }
    }
    watch.bad++;
}

static void *interrupt(void *argument)
{
    while (!atomic_load(&watch.enough))
        pthread_kill(*(pthread_t *)argument, SIGUSR1);
    return NULL;
}

/* Signals interrupt the thread anywhere; each handler finds one of the requests, consistent. */
static void test_record_is_never_torn(void **state)
{
    (void)state;
    struct fixture f;
    struct sonde_trace_model *models[MODELS];
    struct sonde_trace *t[MODELS];
    pthread_t self = pthread_self(), other;
#ifdef __SANITIZE_THREAD__
    print_message("ThreadSanitizer puts signals off until the thread calls something\n");
    skip();
#endif
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    listen_to_all(1);
    for (int i = 0; i < MODELS; i++) {
        char name[80];
        memset(name, 'a' + i, sizeof(name));
        name[1 + 20 * i] = '\0';
        assert_int_equal(sonde_trace_model_new(f.manager, name, 1, &models[i]), 0);
        t[i] = sonde_trace_start(models[i], NULL);
        watch.expected[i] = firings[i];
    }
    listen_to_all(-1);
    struct sigaction act = {.sa_handler = check_in_handler, .sa_flags = SA_RESTART}, before;
    sigaction(SIGUSR1, &act, &before);
    assert_int_equal(pthread_create(&other, NULL, interrupt, &self), 0);
    for (int i = 0; watch.busy < LOOKS && !watch.bad; i++) {
        sonde_trace_enter(t[i % MODELS]);
        sonde_trace_enter(t[(i + 1) % MODELS]);
        sonde_trace_enter(t[(i + 2) % MODELS]);
        sonde_trace_leave(t[(i + 1) % MODELS]); /* moves the published one */
        sonde_trace_leave(t[(i + 2) % MODELS]);
        sonde_trace_leave(t[i % MODELS]);
    }
    atomic_store(&watch.enough, true);
    pthread_join(other, NULL);
    sigaction(SIGUSR1, &before, NULL);
    assert_int_equal(watch.bad, 0);
    for (int i = 0; i < MODELS; i++) {
        sonde_trace_end(t[i], SONDE_TRACE_OK, NULL);
        sonde_trace_model_free(models[i]);
    }
    fixture_close(&f);
}

/* --- names, processes ------------------------------------------------------------------------ */

static void test_model_names(void **state)
{
    (void)state;
    struct fixture f;
    struct seen s;
    char name[200];
    static const struct {
        const char *name;
        size_t repeat, published;
    } cases[] = {{"x", 98, 98}, {"x", 99, 0}, {"x", 150, 0}, {"\xc3\xa4", 1, 0}, {"ab", 1, 2}};
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_trace_model *model;
        size_t size = 0;
        for (size_t j = 0; j < cases[i].repeat; j++)
            size += (size_t)snprintf(name + size, sizeof(name) - size, "%s", cases[i].name);
        assert_int_equal(sonde_trace_model_new(f.manager, name, 1, &model), 0);
        struct sonde_trace *t = sonde_trace_start(model, NULL);
        sonde_trace_enter(t);
        assert_true(read_context(&s));
        assert_int_equal(s.attributes_size, cases[i].published ? 2 + cases[i].published : 0);
        assert_memory_equal(s.attributes + 2, name, cases[i].published);
        sonde_trace_end(t, SONDE_TRACE_OK, NULL);
        sonde_trace_model_free(model);
    }
    fixture_close(&f);
}

/* The address of the process context; 0: none found. */
static unsigned long find_context(void)
{
    char line[512];
    unsigned long at = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (fgets(line, sizeof(line), maps))
        if (strstr(line, " /memfd:OTEL_CTX") || strstr(line, "[anon_shmem:OTEL_CTX]"))
            at = strtoul(line, NULL, 16);
    fclose(maps);
    return at;
}

static bool contains(const char *text, size_t size, const char *what)
{
    return memmem(text, size, what, strlen(what)) != NULL;
}

static void test_process_context(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    unsigned long at = find_context();
    assert_int_not_equal(at, 0);
    const char *h = (const char *)at, *payload;
    uint32_t version, size;
    uint64_t published_ns;
    memcpy(&version, h + 8, 4);
    memcpy(&size, h + 12, 4);
    memcpy(&published_ns, h + 16, 8);
    memcpy(&payload, h + 24, 8);
    assert_memory_equal(h, "OTEL_CTX", 8);
    assert_int_equal(version, 2);
    assert_int_not_equal(published_ns, 0);
    assert_true(contains(payload, size, "threadlocal.schema_version"));
    assert_true(contains(payload, size, "tlsdesc_v1_dev"));
    assert_true(contains(payload, size, "threadlocal.attribute_key_map"));
    assert_true(contains(payload, size, "triton.model_name"));
    fixture_close(&f);
    assert_int_equal(find_context(), 0);
}

/* The attribute indices then belong to the other context, and ours would be misread. */
static void test_existing_process_context_is_kept(void **state)
{
    (void)state;
    struct fixture f;
    struct seen s;
    int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);
    void *other = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(other, MAP_FAILED);
    close(fd);
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    assert_int_equal(find_context(), (uintptr_t)other);
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    sonde_trace_enter(t);
    assert_true(read_context(&s) && s.span_id);
    assert_int_equal(s.attributes_size, 0);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    fixture_close(&f);
    assert_int_equal(find_context(), (uintptr_t)other);
    munmap(other, 1);
}

/* A child starts without a request, and publishes the meaning of its threads' records when one enters. */
static void test_forked_child_starts_without_context(void **state)
{
    (void)state;
    struct fixture f;
    struct seen s;
    if (is_emulated()) {
        print_message("qemu-user leaves a child what MADV_DONTFORK takes from it\n");
        skip();
    }
    fixture_open(&f, "rate=1", "level=TIMESTAMPS");
    struct sonde_trace *t = sonde_trace_start(f.model, NULL);
    sonde_trace_enter(t);
    pid_t pid = fork();
    if (pid == 0) {
        int bad = otel_thread_ctx_v1 != NULL || find_context() != 0;
        sonde_trace_enter(t);
        sonde_trace_leave(t);
        bad |= otel_thread_ctx_v1 != NULL ? 2 : 0;
        struct sonde_trace *own = sonde_trace_start(f.model, NULL);
        sonde_trace_enter(own);
        bad |= find_context() == 0 || !read_context(&s) || s.attributes_size != 3 ? 4 : 0;
        sonde_trace_leave(own);
        bad |= otel_thread_ctx_v1 != NULL ? 8 : 0;
        _exit(bad);
    }
    int status = 1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(read_context(&s));
    assert_int_not_equal(find_context(), 0);
    sonde_trace_leave(t);
    assert_null(otel_thread_ctx_v1);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    fixture_close(&f);
}

/* For a child under a filter: exit status 77 means that filters cannot be set here. */
static void expect_good_end(pid_t pid)
{
    int status = 1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("no seccomp filter can be set\n");
        skip();
    }
    assert_int_equal(status, 0);
}

/* Requests are traced and threads enter regardless. Without a named mapping the process context cannot be found, and
 * there are no attributes; kernels differ in whether anonymous memory can have a name. */
static void test_refused_system_calls(void **state)
{
    (void)state;
    static const int refused[][2] = {{SYS_memfd_create, -1}, {SYS_memfd_create, SYS_prctl}, {SYS_madvise, -1}};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct fixture f;
            struct seen s;
            for (int j = 0; j < 2; j++)
                if (refused[i][j] >= 0 && !forbid((unsigned)refused[i][j], EPERM))
                    _exit(77);
            fixture_open(&f, "rate=1", "level=TIMESTAMPS");
            struct sonde_trace *t = sonde_trace_start(f.model, NULL);
            sonde_trace_enter(t);
            bool good = read_context(&s) && s.span_id != 0 && (i == 0 || (s.attributes_size == 0 && !find_context()));
            sonde_trace_leave(t);
            good &= !read_context(&s);
            sonde_trace_end(t, SONDE_TRACE_OK, NULL);
            good &= sonde_trace_manager_flush(f.manager, 20000) == 0 && fixture_stats(&f).written == 1;
            fixture_close(&f);
            _exit(!good);
        }
        expect_good_end(pid);
    }
}

/* For a sandbox that kills on system calls that only external readers need: SONDE_PROBES=off. */
static void test_sonde_probes_off(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        struct fixture f;
        struct seen s;
        setenv("SONDE_PROBES", "off", 1);
        if (!kill_for_new_code())
            _exit(77);
        fixture_open(&f, "rate=1", "level=TIMESTAMPS");
        struct sonde_trace *t = sonde_trace_start(f.model, NULL);
        sonde_trace_enter(t);
        bool good = read_context(&s) && s.span_id != 0 && !find_context();
        sonde_trace_end(t, SONDE_TRACE_OK, NULL);
        good &= sonde_trace_manager_flush(f.manager, 20000) == 0 && fixture_stats(&f).written == 1;
        fixture_close(&f);
        _exit(!good);
    }
    expect_good_end(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nested_requests),
        cmocka_unit_test(test_nesting_beyond_the_maximum_depth),
        cmocka_unit_test(test_request_ending_while_a_thread_works_on_it),
        cmocka_unit_test(test_record_is_never_torn),
        cmocka_unit_test(test_model_names),
        cmocka_unit_test(test_process_context),
        cmocka_unit_test(test_existing_process_context_is_kept),
        cmocka_unit_test(test_forked_child_starts_without_context),
        cmocka_unit_test(test_refused_system_calls),
        cmocka_unit_test(test_sonde_probes_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
