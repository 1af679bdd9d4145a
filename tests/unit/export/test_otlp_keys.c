/* When two samples, or two rows, are the same: only if all their fields are equal, never because their hashes are.
 * Each profile here is built twice, once with a hash function that returns the same number for everything: its packets
 * are identical, byte by byte. */
#include "export/otlp_dictionary.h"
#include "export/otlp_profiles.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <xxhash.h>

#include "../fixture.h"

static bool collide;
static uint64_t collisions;

XXH64_hash_t __real_XXH3_64bits(const void *data, size_t size);
XXH64_hash_t __wrap_XXH3_64bits(const void *data, size_t size);

XXH64_hash_t __wrap_XXH3_64bits(const void *data, size_t size)
{
    collisions += collide;
    return collide ? 0x5555555555555555 : __real_XXH3_64bits(data, size);
}

static void keep_packet(void *context, const struct otlp_profiles_packet *packet)
{
    struct buf *all = context;
    buf_append(all, packet->data, packet->size);
}

static void write_packets(const struct profile *p, struct buf *all)
{
    const struct otlp_profiles_options o = {.packet_max_bytes = 1 << 20, .host_name = "node", .id_seed = 1};
    uint64_t too_large;
    assert_int_equal(otlp_profiles_write(p, &o, &(struct otlp_profiles_sink){all, keep_packet}, &too_large), 0);
    assert_int_equal(too_large, 0);
}

/* Builds the profile both ways; returns its number of entries. */
static uint32_t entries_of(void (*fill)(struct profile *p))
{
    uint32_t entries[2];
    struct buf packets[2] = {{0}};
    for (int i = 0; i < 2; i++) {
        _cleanup_(profile_freep) struct profile *p = NULL;
        collide = i == 1;
        assert_int_equal(profile_new(0, &p), 0);
        p->start_unix_ns = 1785585600000000000;
        p->duration_ns = 1000000000;
        fill(p);
        write_packets(p, &packets[i]);
        entries[i] = p->entry_count;
    }
    collide = false;
    assert_true(collisions > 0);
    assert_int_equal(entries[0], entries[1]);
    assert_true(packets[0].size > 0);
    assert_int_equal(packets[0].size, packets[1].size);
    assert_memory_equal(packets[0].data, packets[1].data, packets[0].size);
    buf_clear(&packets[0]);
    buf_clear(&packets[1]);
    return entries[0];
}

static void add_sample(struct profile *p, const struct sample *s)
{
    assert_int_equal(profile_add_moment(p, s, p->start_unix_ns + p->moment_count), 0);
}

/* Two different Python stacks over equal native frames: they differ only in the interpreter frames. */
static void fill_python(struct profile *p)
{
    struct resource resource = fixture_resource(7, "python3");
    struct frame stack[] = {fixture_native("_PyEval_EvalFrameDefault"), fixture_frame(FRAME_INTERPRETED, "load", "", 0),
                            fixture_native("PyObject_Call"), fixture_frame(FRAME_INTERPRETED, "main", "", 0),
                            fixture_native("main")};
    struct sample s = {.value = 1,
                       .resource = &resource,
                       .tid = 7,
                       .thread_name = "python3",
                       .frames = stack,
                       .frame_count = array_size(stack)};
    add_sample(p, &s);
    add_sample(p, &s);
    stack[1].function = "save";
    add_sample(p, &s);
    stack[1].function = "load";
    stack[1].line = 12;
    add_sample(p, &s);
    stack[1].file = "a.py";
    add_sample(p, &s);
    stack[1].file = "b.py";
    add_sample(p, &s);
}

static void test_python_stacks_over_equal_native_frames_differ(void **state)
{
    (void)state;
    assert_int_equal(entries_of(fill_python), 5);
}

/* The same stack with every label and attribute a sample can have. */
static void fill_labels(struct profile *p)
{
    const struct frame stack[] = {fixture_native("work"), fixture_native("main")};
    const struct sample base = {.value = 1, .tid = 7, .thread_name = "a", .frames = stack, .frame_count = 2};
    struct resource resources[16];
    size_t count = 0;
    for (; count < array_size(resources); count++)
        resources[count] = fixture_resource(7, "server");
    resources[1].pid = 8;
    resources[2].parent_pid = 9;
    resources[3].command = "other";
    resources[4].executable_path = "/bin/x";
    resources[5].container_id = "c";
    resources[6].container_runtime = "c";
    resources[7].kubernetes_pod_uid = "c";
    resources[8].slurm_job_id = "c";
    resources[9].systemd_unit = "c";
    resources[10].cgroup_path = "c";
    resources[11].service_name = "c";
    resources[12].service_namespace = "c";
    resources[13].service_version = "c";
    resources[14].pod = "k\tc\n"; /* 15 equals 0 */
    for (size_t i = 0; i < count; i++) {
        struct sample s = base;
        s.resource = &resources[i];
        add_sample(p, &s);
    }
    struct sample s = base;
    s.resource = &resources[0];
    s.tid = 8;
    add_sample(p, &s);
    s.thread_name = "b";
    add_sample(p, &s);
    s.link = (struct trace_link){1, 2, 3};
    add_sample(p, &s);
    s.link.span_id = 4;
    add_sample(p, &s);
    s.link.trace_id_high = 4;
    add_sample(p, &s);
    s.link.trace_id_low = 4;
    add_sample(p, &s);
    s.labels = (const struct sample_label[]){{"a", "b"}, {"b", "a"}};
    s.label_count = 1;
    add_sample(p, &s);
    s.label_count = 2;
    add_sample(p, &s);
    s.labels = (const struct sample_label[]){{"a", "a"}, {"b", "a"}};
    add_sample(p, &s);
    s.labels = (const struct sample_label[]){{"b", "b"}, {"b", "a"}};
    s.label_count = 1;
    add_sample(p, &s);
    s.cpu = 1; /* an attribute that is not exported */
    add_sample(p, &s);
}

static void test_labels_are_part_of_the_key(void **state)
{
    (void)state;
    assert_int_equal(entries_of(fill_labels), 15 + 6 + 4);
}

static void fill_many(struct profile *p)
{
    struct resource resource = fixture_resource(7, "server");
    char names[8][32];
    for (unsigned i = 0; i < 600; i++) {
        struct frame stack[8];
        for (unsigned k = 0; k < array_size(stack); k++) {
            snprintf(names[k], sizeof(names[k]), "function_%u", (i * (k + 1)) % 97);
            stack[k] = fixture_native(names[k]);
            stack[k].address = i % 13;
        }
        struct sample s = {.value = i,
                           .resource = &resource,
                           .tid = i % 3,
                           .thread_name = "t",
                           .frames = stack,
                           .frame_count = 1 + i % 8};
        add_sample(p, &s);
    }
}

static void test_many_rows_with_equal_hashes(void **state)
{
    (void)state;
    assert_int_equal(entries_of(fill_many), 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_python_stacks_over_equal_native_frames_differ),
                                       cmocka_unit_test(test_labels_are_part_of_the_key),
                                       cmocka_unit_test(test_many_rows_with_equal_hashes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
