/* Process context (OTEP 4719): the message, the mapping it is found by, and the process table that reads it. */
#include "resolve/process/process_context.h"

#include "../process_records.h"

#include "model/resource.h"
#include "resolve/files/process_context_file.h"
#include "resolve/proc/proc_files.h"

#include "../../emulated.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* ---- the message ---- */

static void put_message(struct buf *to, unsigned field, const struct buf *inside)
{
    buf_putc(to, (char)(field << 3 | 2));
    if (inside->size >= 0x80)
        buf_putc(to, (char)(inside->size | 0x80));
    buf_putc(to, (char)(inside->size < 0x80 ? inside->size : inside->size >> 7));
    buf_append(to, inside->data, inside->size);
}

static void put_text(struct buf *to, unsigned field, const char *text)
{
    const struct buf inside = {.data = (char *)(uintptr_t)text, .size = strlen(text)};
    put_message(to, field, &inside);
}

/* Appends to a Resource. `text` NULL: the integer. */
static void put_pair(struct buf *resource, const char *key, const char *text, uint8_t integer)
{
    _cleanup_buf_ struct buf pair = {0}, value = {0};
    if (text) {
        put_text(&value, 1, text);
    } else {
        buf_putc(&value, 3 << 3);
        buf_putc(&value, (char)integer);
    }
    put_text(&pair, 1, key);
    put_message(&pair, 2, &value);
    put_message(resource, 1, &pair);
}

static void parse_context(const struct buf *resource, struct process_context *ret)
{
    _cleanup_buf_ struct buf context = {0};
    put_message(&context, 1, resource);
    assert_int_equal(process_context_parse(context.data, context.size, ret), 0);
    for (size_t size = 1; size < context.size;
         size++) /* a message has no end marker: it is truncated if its length says more */
        assert_int_equal(process_context_parse(context.data, size, &(struct process_context){0}), -EBADMSG);
}

static struct process_context said;

static void test_all_attributes_are_read(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf resource = {0};
    put_pair(&resource, "telemetry.sdk.name", "opentelemetry", 0);
    put_pair(&resource, "service.name", "shop", 0);
    put_pair(&resource, "service.instance.id", "a=b,c:d\xc3\xa4", 0);
    put_pair(&resource, "process.pid", NULL, 1); /* overridden by the node */
    put_pair(&resource, "service.version", "7", 0);
    put_pair(&resource, "port", NULL, 80);
    put_pair(&resource, "service.namespace", "prod", 0);
    parse_context(&resource, &said);
    assert_string_equal(said.service.name, "shop");
    assert_string_equal(said.service.namespace, "prod");
    assert_string_equal(said.service.version, "7");
    assert_string_equal(said.attributes,
                        "port\t\t80\nservice.instance.id\ta=b,c:d\xc3\xa4\ntelemetry.sdk.name\topentelemetry\n");
    assert_int_equal(said.left_out, 0);

    struct resource_other other;
    const char *at = said.attributes;
    assert_true(resource_next_other(&at, &other) && other.is_integer && other.integer == 80);
    assert_string_equal(other.key, "port");
    assert_true(resource_next_other(&at, &other) && !other.is_integer);
    assert_string_equal(other.key, "service.instance.id");
    assert_string_equal(other.text, "a=b,c:d\xc3\xa4");
    assert_true(resource_next_other(&at, &other));
    assert_false(resource_next_other(&at, &other));
}

static void test_ignored_attributes(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf resource = {0};
    char long_text[RESOURCE_VALUE_BYTES + 1] = "", long_key[RESOURCE_KEY_BYTES + 1] = "", long_name[300] = "";
    memset(long_text, 'x', RESOURCE_VALUE_BYTES);
    memset(long_key, 'x', RESOURCE_KEY_BYTES);
    memset(long_name, 'x', sizeof(long_name) - 1);
    put_pair(&resource, "good", "1", 0);
    put_pair(&resource, "escape", "\x1b[31mred", 0);
    put_pair(&resource, "c1",
             "\xc2\x9b"
             "31m",
             0);
    put_pair(&resource, "feed", "a\nb", 0);
    put_pair(&resource, "a\tb", "tab", 0);
    put_pair(&resource, "latin", "\xe4", 0);
    put_pair(&resource, "empty", "", 0);
    put_pair(&resource, "", "no key", 0);
    put_pair(&resource, "long", long_text, 0);
    put_pair(&resource, long_key, "long", 0);
    put_pair(&resource, "good", "2", 0);
    put_pair(&resource, "service.name", long_name, 0);
    put_pair(&resource, "service.version", NULL, 5);
    put_pair(&resource, "last", "2", 0);
    parse_context(&resource, &said);
    assert_string_equal(said.attributes, "good\t1\nlast\t2\n");
    assert_string_equal(said.service.name, "");
    assert_string_equal(said.service.version, "");
    assert_int_equal(said.left_out, 12);
}

static void test_number_of_attributes_is_bounded(void **state)
{
    (void)state;
    _cleanup_buf_ struct buf resource = {0};
    char key[16];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof(key), "key-%d", i);
        put_pair(&resource, key, "value", 0);
    }
    parse_context(&resource, &said);
    assert_int_equal(said.left_out, 100 - 64);

    _cleanup_buf_ struct buf large = {0};
    char text[500] = "";
    memset(text, 'x', sizeof(text) - 1);
    for (int i = 0; i < 20; i++) {
        snprintf(key, sizeof(key), "key-%02d", i);
        put_pair(&large, key, text, 0);
    }
    parse_context(&large, &said);
    assert_int_equal(said.left_out, 20 - 8);
    assert_true(strlen(said.attributes) < sizeof(said.attributes));
}

static void test_invalid_messages_are_refused(void **state)
{
    (void)state;
    assert_int_equal(process_context_parse("", 0, &said), 0); /* an empty one */
    assert_int_equal(process_context_parse("\x0a\xff\xff\xff\xff\x0f", 6, &said), -EBADMSG);
    assert_int_equal(process_context_parse("\x0b", 1, &said), -EBADMSG);
    assert_int_equal(process_context_parse("\x0a\x03\x0a\x7f"
                                           "x",
                                           5, &said),
                     -EBADMSG);
}

/* ---- the mapping ---- */

struct header { /* as in the OTEP */
    char signature[8];
    uint32_t version, payload_size;
    _Atomic uint64_t published_ns;
    uint64_t payload;
};

static struct header *publish(const void *payload, size_t size, uint64_t published_ns)
{
    int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);
    assert_true(fd >= 0 && ftruncate(fd, sizeof(struct header)) == 0);
    struct header *h = mmap(NULL, sizeof(*h), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    close(fd);
    assert_ptr_not_equal(h, MAP_FAILED);
    memcpy(h->signature, "OTEL_CTX", 8);
    h->version = 2;
    h->payload_size = (uint32_t)size;
    h->payload = (uintptr_t)payload;
    atomic_store(&h->published_ns, published_ns);
    assert_int_equal(madvise(h, sizeof(*h), MADV_DONTFORK), 0);
    return h;
}

static void update(struct header *h, const void *payload, size_t size, uint64_t published_ns)
{
    atomic_store(&h->published_ns, 0);
    atomic_thread_fence(memory_order_seq_cst);
    h->payload_size = (uint32_t)size;
    h->payload = (uintptr_t)payload;
    atomic_store(&h->published_ns, published_ns);
}

static const struct process_context_place nowhere;

static int copy_own(const struct process_context_place *known, struct buf *to)
{
    _cleanup_close_ int fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    to->size = 0;
    return process_context_copy(fd, known, to);
}

static void test_inconsistent_headers_are_refused(void **state)
{
    (void)state;
    skip_if_emulated();
    static const char payload[] = "payload";
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    _cleanup_buf_ struct buf text = {0};
    struct process_context_place place;
    assert_int_equal(copy_own(&nowhere, &text), -ENOENT);
    struct header *h = publish(payload, sizeof(payload), 1);
    assert_int_equal(copy_own(&nowhere, &text), 0);
    assert_int_equal(text.size, sizeof(place) + sizeof(payload));
    memcpy(&place, text.data, sizeof(place));
    assert_int_equal(place.address, (uintptr_t)h);
    assert_int_equal(place.published_ns, 1);
    assert_memory_equal(text.data + sizeof(place), payload, sizeof(payload));
    assert_int_equal(copy_own(&place, &text), -EALREADY);
    const struct process_context_place elsewhere = {.address = 4096, .published_ns = 1};
    assert_int_equal(copy_own(&elsewhere, &text), 0);

    char *end = mmap(NULL, 33 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(end, MAP_FAILED);
    end += page;
    munmap(end, 32 * page); /* so that nothing is mapped at its beginning soon */
    const struct {
        uint64_t payload, size;
        int error;
    } corruptions[] = {
        {0, 8, -EBADMSG},
        {4096, 8, -EBADMSG},
        {UINT64_MAX - 2, 8, -EBADMSG},
        {(uintptr_t)h, 0, -EBADMSG},
        {(uintptr_t)h, UINT32_MAX, -EBADMSG},
        {(uintptr_t)h, PROCESS_CONTEXT_MAX_BYTES + 1, -EBADMSG},
        {(uintptr_t)end - 8, 16, -EBADMSG},
        {(uintptr_t)end - 8, 8, 0},
        {(uintptr_t)h, 32, 0}, /* itself */
    };
    for (size_t i = 0; i < sizeof(corruptions) / sizeof(corruptions[0]); i++) {
        update(h, (const void *)(uintptr_t)corruptions[i].payload, corruptions[i].size, 2 + i); /* NOLINT */
        assert_int_equal(copy_own(&place, &text), corruptions[i].error);
    }
    munmap(end - page, page);
    update(h, payload, sizeof(payload), 0);
    assert_int_equal(copy_own(&nowhere, &text), -EAGAIN);
    update(h, payload, sizeof(payload), 3);
    h->version = 3;
    assert_int_equal(copy_own(&nowhere, &text), -ENOENT);
    h->version = 2;
    h->signature[0] = 'o';
    assert_int_equal(copy_own(&place, &text), -ENOENT);
    munmap(h, sizeof(*h));
    assert_int_equal(copy_own(&place, &text), -ENOENT);
}

struct flipper {
    struct header *h;
    char payloads[2][20000];
    atomic_bool ends;
};

static void *flip_payload(void *arg)
{
    struct flipper *f = arg;
    for (uint64_t i = 2; !atomic_load(&f->ends); i++) {
        atomic_store(&f->h->published_ns, 0);
        atomic_thread_fence(memory_order_seq_cst);
        memset(f->payloads[i % 2], 'a' + (int)(i % 26), sizeof(f->payloads[0])); /* also while it is being read */
        update(f->h, f->payloads[i % 2], i % 2 ? 20000 : 13000, i);
    }
    return NULL;
}

/* The result is one payload or the other, complete, with the time of its header. */
static void test_context_that_changes_while_read(void **state)
{
    (void)state;
    skip_if_emulated();
    static struct flipper f;
    memset(f.payloads[1], 'b', sizeof(f.payloads[1]));
    f.h = publish(f.payloads[1], sizeof(f.payloads[1]), 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, flip_payload, &f), 0);
    _cleanup_buf_ struct buf text = {0};
    for (int i = 0; i < 300; i++) {
        struct process_context_place place;
        int r = copy_own(&nowhere, &text);
        if (r == -EAGAIN)
            continue;
        assert_int_equal(r, 0);
        memcpy(&place, text.data, sizeof(place));
        assert_int_equal(text.size - sizeof(place), place.published_ns % 2 ? 20000 : 13000);
        for (size_t at = sizeof(place); at < text.size; at++)
            assert_int_equal(text.data[at], 'a' + (int)(place.published_ns % 26));
    }
    atomic_store(&f.ends, true);
    pthread_join(thread, NULL);
    munmap(f.h, sizeof(*f.h));
}

/* ---- the table ---- */

static void put_context(struct buf *context, const char *name, const char *instance)
{
    _cleanup_buf_ struct buf resource = {0};
    put_pair(&resource, "service.name", name, 0);
    put_pair(&resource, "service.instance.id", instance, 0);
    context->size = 0;
    put_message(context, 1, &resource);
}

static const struct resource *resource_at(struct fixture *f, uint32_t pid, uint64_t time_ns)
{
    processes_at(f->p, time_ns);
    const struct process *process = processes_find(f->p, pid, 0);
    assert_non_null(process);
    return processes_resource(f->p, process);
}

#define SECOND_NS 1000000000ull

/* Within that many seconds; longer on a machine that does not answer in time. */
static void await_name(struct fixture *f, const char *name)
{
    for (int i = 0; i < 300; i++) {
        if (strcmp(resource_at(f, (uint32_t)getpid(), f->time_ns)->service_name, name) == 0)
            return;
        usleep(i * 1000);
        f->time_ns += SECOND_NS;
    }
    fail_msg("not %s", name);
}

static void test_process_table_reads_the_context(void **state)
{
    skip_if_emulated();
    struct fixture *f = *state;
    const uint32_t me = (uint32_t)getpid();
    _cleanup_buf_ struct buf one = {0}, other = {0};
    put_context(&one, "shop", "one");
    put_context(&other, "kiosk", "other");
    char own[64];
    f->time_ns += 100 * SECOND_NS;
    snprintf(own, sizeof(own), "%s", resource_at(f, me, f->time_ns)->service_name);
    assert_string_equal(resource_at(f, me, f->time_ns)->attributes, "");
    struct header *h = publish(one.data, one.size, 1);
    assert_string_equal(resource_at(f, me, f->time_ns + 1)->service_name, own); /* it was read a moment ago */
    await_name(f, "shop");
    assert_string_equal(resource_at(f, me, f->time_ns)->attributes, "service.instance.id\tone\n");
    update(h, other.data, other.size, 2);
    assert_string_equal(resource_at(f, me, f->time_ns + SECOND_NS)->service_name, "shop");
    await_name(f, "kiosk");
    update(h, "\x0b", 1, 3); /* invalid */
    await_name(f, own);
    update(h, one.data, one.size, 4);
    await_name(f, "shop");

    /* A child has no context, and a program does not inherit the one before exec. */
    int gate[2];
    assert_int_equal(pipe(gate), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        close(gate[1]);
        _exit(read(gate[0], &(char){0}, 1) == 0 ? 0 : 1);
    }
    close(gate[0]);
    assert_string_equal(resource_at(f, (uint32_t)pid, f->time_ns + 5 * SECOND_NS)->attributes, "");
    close(gate[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    record_fork(f, me, UNUSED_PID, UNUSED_PID);
    assert_string_equal(resource_at(f, UNUSED_PID, f->time_ns)->attributes, "");
    f->time_ns += 10 * SECOND_NS;
    record_exec(f, me, "another");
    assert_string_equal(resource_at(f, me, f->time_ns)->attributes, "");
    snprintf(own, sizeof(own), "%s", resource_at(f, me, f->time_ns)->service_name);
    await_name(f, "shop"); /* this one still exists */

    munmap(h, sizeof(*h));
    await_name(f, own);
    h = publish(other.data, other.size, 1);
    await_name(f, "kiosk");
    munmap(h, sizeof(*h));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_attributes_are_read),
        cmocka_unit_test(test_ignored_attributes),
        cmocka_unit_test(test_number_of_attributes_is_bounded),
        cmocka_unit_test(test_invalid_messages_are_refused),
        cmocka_unit_test(test_inconsistent_headers_are_refused),
        cmocka_unit_test(test_context_that_changes_while_read),
        cmocka_unit_test_setup_teardown(test_process_table_reads_the_context, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
