/* Firings of a libsonde probe as the source delivers them: each one, in order, with its strings, and a count of those
 * that found no space. */
#include <sonde/probe.h>

#include "sources/usdt/usdt_watch.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MORE_THAN_THE_RING 3000

struct seen {
    uint64_t count, next;
    bool wrong;
};

static int take(void *context, const void *target_context, const struct usdt_firing *f)
{
    struct seen *s = context;
    s->wrong |= strcmp(target_context, "of the target") != 0 || f->pid != (uint32_t)getpid() ||
                f->argument_count != 4 || f->unread || f->values[0] != s->next || (int64_t)f->values[1] != -2 ||
                f->text_bytes[2] != 5 || strcmp(f->texts[2], "text") != 0 || f->values[3] != 0 ||
                f->text_bytes[3] != 0 || f->text_bytes[0] != 0;
    s->next++;
    s->count++;
    return 0;
}

/* The newest object in memory of a provider. */
static const char *path_of(const char *provider)
{
    static char path[64], found[64];
    char link[128], wanted[96];
    snprintf(wanted, sizeof(wanted), "/memfd:%s (deleted)", provider);
    for (int fd = 0; fd < 256; fd++) {
        snprintf(path, sizeof(path), "/proc/%d/fd/%d", getpid(), fd);
        ssize_t length = readlink(path, link, sizeof(link) - 1);
        if (length > 0 && (link[length] = '\0', strcmp(link, wanted) == 0))
            snprintf(found, sizeof(found), "%s", path);
    }
    assert_true(found[0]);
    return found;
}

static void test_every_firing_is_delivered_or_counted(void **state)
{
    (void)state;
    struct sonde_provider *provider;
    struct sonde_probe *probe;
    struct usdt_watch *w;
    struct usdt_watch_link *link;
    struct seen seen = {0};
    assert_int_equal(sonde_provider_new("test_watch", &provider), 0);
    assert_int_equal(sonde_probe_add(provider, "some", "u64 n, i32 m, str a, str b", &probe), 0);
    assert_int_equal(sonde_provider_load(provider), 0);
    const struct usdt_watch_target target = {.path = path_of("test_watch"),
                                             .pid = getpid(),
                                             .provider = "test_watch",
                                             .name = "some",
                                             .texts = 1 << 2 | 1 << 3,
                                             .context = "of the target"};
    assert_int_equal(usdt_watch_new(take, &seen, &w), 0);
    assert_int_equal(usdt_watch_poll(w), 0); /* no firing */
    assert_int_equal(usdt_watch_fd(w), -1);
    int r = usdt_watch_add(w, &target, &link);
    if (libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_get_attach_cookie, NULL) != 1) {
        assert_int_equal(r, -ENOTSUP);
        print_message("refused as it should: a kernel without BPF cookies\n");
    } else {
        assert_int_equal(r, 0);
        assert_true(sonde_probe_enabled(probe));
        for (uint64_t n = 0; n < 100; n++)
            sonde_probe_fire(probe, n, -2, "text", NULL);
        assert_int_equal(usdt_watch_poll(w), 0);
        assert_int_equal(seen.count, 100);
        assert_int_equal(usdt_watch_lost(w), 0);
        for (uint64_t n = 100; n < 100 + MORE_THAN_THE_RING; n++)
            sonde_probe_fire(probe, n, -2, "text", NULL);
        assert_int_equal(usdt_watch_poll(w), 0);
        assert_true(seen.count > 100);
        assert_true(usdt_watch_lost(w) > 0);
        assert_int_equal(seen.count + usdt_watch_lost(w), 100 + MORE_THAN_THE_RING);
        assert_false(seen.wrong);
    }
    usdt_watch_free(w);
    assert_false(sonde_probe_enabled(probe));
    sonde_provider_free(provider);
}

static void test_attach_failures_are_refused(void **state)
{
    (void)state;
    struct usdt_watch *w;
    struct usdt_watch_link *link;
    struct seen seen = {0};
    assert_int_equal(usdt_watch_new(take, &seen, &w), 0);
    const struct usdt_watch_target target = {.path = "/proc/self/exe", .pid = -1, .provider = "missing", .name = "has"};
    assert_true(usdt_watch_add(w, &target, &link) < 0);
    assert_int_equal(usdt_watch_poll(w), 0);
    assert_int_equal(usdt_watch_lost(w), 0);
    usdt_watch_free(w);
    usdt_watch_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_firing_is_delivered_or_counted),
        cmocka_unit_test(test_attach_failures_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
