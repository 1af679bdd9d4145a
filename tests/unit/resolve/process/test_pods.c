/* A container runtime's answers about pods (CRI): the two messages, the fields that are kept, and pod selectors. */
#include "resolve/process/pods.h"

#include "base/buf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define UID "0b1d3c5e-1111-2222-3333-444455556666"

static void put_number(struct buf *to, uint64_t number)
{
    for (; number >= 0x80; number >>= 7)
        buf_putc(to, (char)(number | 0x80));
    buf_putc(to, (char)number);
}

static void put_message(struct buf *to, unsigned field, const struct buf *inside)
{
    buf_putc(to, (char)(field << 3 | 2));
    put_number(to, inside->size);
    buf_append(to, inside->data, inside->size);
}

static void put_text(struct buf *to, unsigned field, const char *text)
{
    const struct buf inside = {.data = (char *)(uintptr_t)text, .size = strlen(text)};
    put_message(to, field, &inside);
}

static void put_label(struct buf *to, const char *key, const char *value)
{
    _cleanup_buf_ struct buf pair = {0};
    put_text(&pair, 1, key);
    put_text(&pair, 2, value);
    put_message(to, 5, &pair);
}

/* 64 digits. */
static const char *id(char digit)
{
    static char ids[16][65];
    char *out = ids[digit % 16];
    memset(out, digit, 64);
    return out;
}

static void put_sandbox(struct buf *to, char digit, const char *uid, const char *namespace, const char *name,
                        unsigned state)
{
    _cleanup_buf_ struct buf item = {0}, metadata = {0};
    put_text(&metadata, 1, name);
    put_text(&metadata, 2, uid);
    put_text(&metadata, 3, namespace);
    put_text(&item, 1, id(digit));
    put_message(&item, 2, &metadata);
    if (state) {
        buf_putc(&item, 3 << 3);
        put_number(&item, state);
    }
    put_label(&item, "app", name);
    put_label(&item, "secret", "hunter2");
    put_label(&item, "empty", "");
    put_label(&item, "app.kubernetes.io/part-of", "shop");
    put_message(to, 1, &item);
}

static void put_container(struct buf *to, const char *container_id, char sandbox, const char *name)
{
    _cleanup_buf_ struct buf item = {0}, metadata = {0};
    put_text(&metadata, 1, name);
    put_text(&item, 1, container_id);
    put_text(&item, 2, id(sandbox));
    put_message(&item, 3, &metadata);
    put_message(to, 1, &item);
}

static int read_both(const struct buf *sandboxes, const struct buf *containers, const char *keys, struct pods **ret)
{
    return pods_read(&(struct pods_replies){sandboxes->data, containers->data, sandboxes->size, containers->size}, keys,
                     ret);
}

static void test_containers_have_their_pods(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf sandboxes = {0}, containers = {0};
    struct pods *pods;
    bool is_whole;
    put_sandbox(&sandboxes, 'a', UID, "shop", "web-1", 1); /* exited; the pod has another one now */
    put_sandbox(&sandboxes, 'b', UID, "shop", "web-1", 0);
    put_sandbox(&sandboxes, 'c', "ffff", "jobs", "batch", 1);
    put_container(&containers, id('1'), 'b', "app");
    put_container(&containers, id('2'), 'c', "work");
    assert_int_equal(read_both(&sandboxes, &containers, "app,empty,missing,app.kubernetes.io/part-of", &pods), 0);
    assert_int_equal(pods_count(pods), 2);
    assert_int_equal(pods_left_out(pods), 0);
    static const char web[] =
        "k8s.namespace.name\tshop\nk8s.pod.name\tweb-1\nk8s.pod.label.app\tweb-1\nk8s.pod.label.empty\t\n"
        "k8s.pod.label.app.kubernetes.io/part-of\tshop\n";
    char app[sizeof(web) + 64];
    snprintf(app, sizeof(app), "%sk8s.container.name\tapp\n", web);
    assert_string_equal(pods_find(pods, id('1'), UID, &is_whole), app);
    assert_true(is_whole);
    assert_string_equal(pods_find(pods, id('a'), UID, &is_whole), web); /* the sandbox's own processes */
    assert_true(is_whole);
    assert_string_equal(pods_find(pods, id('9'), UID, &is_whole), web);
    assert_false(is_whole);
    assert_null(pods_find(pods, id('9'), "", &is_whole));
    assert_null(pods_find(pods, id('9'), "eeee", &is_whole));
    size_t ready = 0;
    for (const struct pod *pod = NULL; (pod = pods_next(pods, pod));) {
        ready += pod->is_ready;
        assert_int_equal(pod->is_ready, strcmp(pod->uid, UID) == 0);
    }
    assert_int_equal(ready, 1);
    struct pods *other = pods_ref(pods);
    pods_unref(pods);
    assert_int_equal(pods_count(other), 2);
    pods_unref(other);
    pods_unref(NULL);
}

/* Refused and counted, without affecting the others. */
static void test_names_invalid_in_kubernetes_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "a\nb", "a\tb", "a b", "\xc3\xa4", "a/b"};
    _cleanup_buf_ struct buf sandboxes = {0}, containers = {0};
    struct pods *pods;
    bool is_whole;
    char long_name[300] = "";
    memset(long_name, 'x', 254);
    for (size_t i = 0; i < array_size(bad); i++) {
        put_sandbox(&sandboxes, (char)('a' + i), "aa", bad[i], "x", 0);
        put_sandbox(&sandboxes, (char)('a' + i), "aa", "x", bad[i], 0);
        put_sandbox(&sandboxes, (char)('a' + i), bad[i], "x", "x", 0);
    }
    put_sandbox(&sandboxes, 'f', "aa", "x", long_name, 0);
    put_sandbox(&sandboxes, '0', "aa", "shop", "web", 0);
    put_sandbox(&sandboxes, '0', "bb", "shop", "twice", 0);
    put_container(&containers, id('1'), '0', "app");
    put_container(&containers, id('1'), '0', "twice");
    put_container(&containers, "12ab", '0', "short");
    put_container(&containers, id('2'), '7', "nobodys");
    put_container(&containers, id('3'), '0', "");
    assert_int_equal(read_both(&sandboxes, &containers, "", &pods), 0);
    assert_int_equal(pods_count(pods), 1);
    assert_int_equal(pods_left_out(pods), 3 * array_size(bad) + 2 + 4);
    assert_string_equal(pods_find(pods, id('1'), "", &is_whole),
                        "k8s.namespace.name\tshop\nk8s.pod.name\tweb\nk8s.container.name\tapp\n");
    pods_unref(pods);
    for (size_t size = 1; size < 40; size++) { /* truncated within the first one */
        const struct buf cut = {.data = sandboxes.data, .size = size};
        assert_int_equal(read_both(&cut, &containers, "", &pods), -EBADMSG);
    }
    assert_int_equal(read_both(&(struct buf){0}, &(struct buf){0}, "", &pods), 0);
    assert_int_equal(pods_count(pods), 0);
    pods_unref(pods);
}

static void test_number_of_pods_is_bounded(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf sandboxes = {0}, containers = {0};
    struct pods *pods;
    for (unsigned i = 0; i < PODS_MAX + 10; i++) {
        _cleanup_buf_ struct buf item = {0}, metadata = {0};
        char number[65], uid[16];
        snprintf(number, sizeof(number), "%064x", i);
        snprintf(uid, sizeof(uid), "%x", i);
        put_text(&metadata, 1, "x");
        put_text(&metadata, 2, uid);
        put_text(&metadata, 3, "y");
        put_text(&item, 1, number);
        put_message(&item, 2, &metadata);
        put_message(&sandboxes, 1, &item);
    }
    assert_int_equal(read_both(&sandboxes, &containers, "", &pods), 0);
    assert_int_equal(pods_count(pods), PODS_MAX);
    assert_int_equal(pods_left_out(pods), 10);
    pods_unref(pods);
}

static void test_pod_selectors(void **state)
{
    (void)state;
    static const char *const good_names[] = {"a/b", "kube-system/etcd-node.1"}, *const bad_names[] = {"",      "a",
                                                                                                      "a/",    "/a",
                                                                                                      "a/b/c", "a b/c"};
    static const char *const good_labels[] = {"a=b", "a=", "a=b,c.d/e=f-1"}, *const bad_labels[] = {
                                                                                 "",     "a",     "=b",
                                                                                 "a=b,", ",a=b",  "a=b,c",
                                                                                 "a==b", "a=b c", "a b=c"};
    for (size_t i = 0; i < array_size(good_names); i++)
        assert_true(pod_choice_check(POD_CHOICE_NAME, good_names[i]));
    for (size_t i = 0; i < array_size(bad_names); i++)
        assert_false(pod_choice_check(POD_CHOICE_NAME, bad_names[i]));
    for (size_t i = 0; i < array_size(good_labels); i++)
        assert_true(pod_choice_check(POD_CHOICE_LABELS, good_labels[i]));
    for (size_t i = 0; i < array_size(bad_labels); i++)
        assert_false(pod_choice_check(POD_CHOICE_LABELS, bad_labels[i]));
    const struct pod pod = {
        .uid = "a",
        .namespace = "shop",
        .name = "web",
        .attributes =
            "k8s.namespace.name\tshop\nk8s.pod.name\tweb\nk8s.pod.label.app\tweb\nk8s.pod.label.empty\t\nk8s.pod.label.x\tapp\n"};
    assert_true(pod_is_chosen(&pod, POD_CHOICE_NAME, "shop/web"));
    assert_false(pod_is_chosen(&pod, POD_CHOICE_NAME, "shop/web-1"));
    assert_false(pod_is_chosen(&pod, POD_CHOICE_NAME, "sho/web"));
    assert_true(pod_is_chosen(&pod, POD_CHOICE_LABELS, "app=web"));
    assert_true(pod_is_chosen(&pod, POD_CHOICE_LABELS, "x=app,empty=,app=web"));
    assert_false(pod_is_chosen(&pod, POD_CHOICE_LABELS, "app=web,x=web"));
    assert_false(pod_is_chosen(&pod, POD_CHOICE_LABELS, "app=we"));
    assert_false(pod_is_chosen(&pod, POD_CHOICE_LABELS, "pp=web"));
    assert_false(pod_is_chosen(&pod, POD_CHOICE_LABELS, "missing="));
}

static void test_label_keys_are_checked(void **state)
{
    (void)state;
    char list[64] = "", many[PODS_LABELS_MAX * 4 + 8] = "";
    assert_true(pods_check_keys("") && pods_check_keys("a") && pods_check_keys("a.b/c-d_e,f"));
    assert_false(pods_check_keys(",") || pods_check_keys("a,") || pods_check_keys(",a") || pods_check_keys("a,,b") ||
                 pods_check_keys("a b") || pods_check_keys("a=b"));
    for (int i = 0; i < PODS_LABELS_MAX; i++)
        snprintf(many + strlen(many), sizeof(many) - strlen(many), "%sk%d", i ? "," : "", i);
    assert_true(pods_check_keys(many));
    strncat(many, ",x", 3);
    assert_false(pods_check_keys(many));
    assert_true(pod_choice_add_keys("a=1,b=2", list, sizeof(list)));
    assert_true(pod_choice_add_keys("b=3,c=4", list, sizeof(list)));
    assert_string_equal(list, "a,b,c");
    assert_false(
        pod_choice_add_keys("a-name-that-is-too-long-for-the-little-room-that-is-there-x=1", list, sizeof(list)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_containers_have_their_pods),
        cmocka_unit_test(test_names_invalid_in_kubernetes_are_refused),
        cmocka_unit_test(test_number_of_pods_is_bounded),
        cmocka_unit_test(test_pod_selectors),
        cmocka_unit_test(test_label_keys_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
