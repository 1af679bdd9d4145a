/* profile.c: equal samples are joined, samples that differ in any field are not, memory stays within its bound, and
 * merging loses nothing. */
#include "model/profile.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../fixture.h"

static struct profile *new_profile(size_t max_bytes)
{
    struct profile *p = NULL;
    assert_int_equal(profile_new(max_bytes, &p), 0);
    return p;
}

static void test_empty_profile(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = new_profile(0), *to = new_profile(0), *folded = NULL;
    assert_int_equal(p->entry_count, 0);
    assert_string_equal(profile_text(p, 0), "");
    assert_int_equal(profile_merge(to, p, NULL), 0);
    assert_int_equal(to->entry_count, 0);
    assert_int_equal(profile_fold(p, &folded), 0);
    assert_int_equal(folded->entry_count, 0);
    profile_free(NULL);
}

static void test_equal_samples_are_one_entry(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = new_profile(0);
    struct resource resource = fixture_resource(1, "a");
    for (int i = 0; i < 5; i++) {
        /* Different memory each time: equality is by contents. */
        char name[] = "work";
        struct frame frames[] = {fixture_native(name), fixture_native("main")};
        assert_int_equal(fixture_add(p, &resource, 1, "t", 7, frames, 2), 0);
    }
    assert_int_equal(p->entry_count, 1);
    assert_int_equal(p->stack_count, 1);
    assert_int_equal(p->frame_count, 2);
    assert_int_equal(p->entries[0].count, 5);
    assert_int_equal(p->entries[0].value, 35);
    const struct profile_stack *stack = &p->stacks[p->entries[0].stack];
    assert_string_equal(profile_text(p, p->frames[p->stack_frames[stack->first]].function), "work"); /* leaf first */
}

/* A frame or a resource that differs in a single field is distinct. */
static void test_every_field_counts(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = new_profile(0);
    struct resource resource = fixture_resource(1, "a");
    struct frame base = {
        .kind = FRAME_NATIVE, .function = "f", .file = "f.c", .line = 1, .mapping = "m", .build_id = "b", .address = 1};
    struct frame variants[] = {base, base, base, base, base, base, base, base};
    variants[1].kind = FRAME_INTERPRETED;
    variants[2].function = "g";
    variants[3].file = "g.c";
    variants[4].line = 2;
    variants[5].mapping = "n";
    variants[6].build_id = "c";
    variants[7].address = UINT64_C(1) << 40;
    for (size_t i = 0; i < array_size(variants); i++)
        fixture_add(p, &resource, 1, "t", 1, &variants[i], 1);
    assert_int_equal(p->frame_count, array_size(variants));
    assert_int_equal(p->entry_count, array_size(variants));

    uint32_t before = p->entry_count;
    struct resource others[16];
    for (size_t i = 0; i < array_size(others); i++)
        others[i] = resource;
    others[1].pid = 2;
    others[2].parent_pid = 2;
    others[3].command = "x";
    others[4].executable_path = "x";
    others[5].service_name = "x";
    others[6].service_namespace = "x";
    others[7].service_version = "x";
    others[8].container_id = "x";
    others[9].container_runtime = "x";
    others[10].kubernetes_pod_uid = "x";
    others[11].slurm_job_id = "x";
    others[12].systemd_unit = "x";
    others[13].cgroup_path = "x";
    others[14].attributes = "k\tx\n";
    others[15].pod = "k\tx\n";
    for (size_t i = 0; i < array_size(others); i++)
        fixture_add(p, &others[i], 1, "t", 1, &base, 1);
    assert_int_equal(p->resource_count, array_size(others));
    assert_int_equal(p->entry_count, before + array_size(others) - 1);

    fixture_add(p, &resource, 2, "t", 1, &base, 1);
    fixture_add(p, &resource, 1, "u", 1, &base, 1);
    assert_int_equal(p->entry_count, before + array_size(others) - 1 + 2);
}

/* Equal native frames under different interpreter frames, which have neither file nor address. Other profilers merge
 * these. */
static void test_stacks_differ_by_interpreter_frames(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = new_profile(0);
    struct resource resource = fixture_resource(1, "python3");
    struct frame native = fixture_native("_PyEval_EvalFrameDefault");
    struct frame one = fixture_frame(FRAME_INTERPRETED, "load", "", 0),
                 other = fixture_frame(FRAME_INTERPRETED, "train", "", 0);
    fixture_add(p, &resource, 1, "t", 1, (struct frame[]){native, one, native}, 3);
    fixture_add(p, &resource, 1, "t", 1, (struct frame[]){native, other, native}, 3);
    assert_int_equal(p->stack_count, 2);
    assert_int_equal(p->entry_count, 2);
}

/* Prefixes, the empty stack, and stacks with the same frames in another order. */
static void test_stacks_differ_by_length_and_order(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = new_profile(0);
    struct resource resource = fixture_resource(1, "a");
    struct frame a = fixture_native("a"), b = fixture_native("bb");
    fixture_add(p, &resource, 1, "t", 1, NULL, 0);
    fixture_add(p, &resource, 1, "t", 1, (struct frame[]){a}, 1);
    fixture_add(p, &resource, 1, "t", 1, (struct frame[]){a, b}, 2);
    fixture_add(p, &resource, 1, "t", 1, (struct frame[]){b, a}, 2);
    fixture_add(p, &resource, 1, "t", 1, (struct frame[]){a, a}, 2);
    fixture_add(p, &resource, 1, "t", 1, NULL, 0);
    assert_int_equal(p->stack_count, 5);
    assert_int_equal(fixture_count(p), 6);
}

static void test_stack_of_a_thousand_frames(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = new_profile(0);
    fixture_deep(p, 1000);
    fixture_deep(p, 1000);
    fixture_deep(p, 999);
    assert_int_equal(p->frame_count, 1000);
    assert_int_equal(p->stack_count, 2);
    assert_int_equal(p->entries[0].count, 2);
}

static void test_hostile_names_are_kept(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = new_profile(0), *copy = new_profile(0);
    fixture_hostile(p);
    assert_int_equal(p->entry_count, 6);
    assert_int_equal(profile_merge(copy, p, NULL), 0);
    assert_int_equal(copy->entry_count, 6);
    bool found = false;
    for (uint32_t i = 0; i < copy->frame_count; i++)
        found = found || strlen(profile_text(copy, copy->frames[i].function)) == 65536;
    assert_true(found);
}

/* A simple generator: the same samples in every run. */
static uint32_t random_next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

#define DEPTH_MAX 6
struct naive {
    uint32_t pid, tid, depth;
    uint32_t functions[DEPTH_MAX];
    uint64_t count, value;
};

static void make_sample(uint64_t *seed, struct naive *sample)
{
    *sample = (struct naive){.pid = random_next(seed) % 5,
                             .tid = random_next(seed) % 3,
                             .depth = 1 + random_next(seed) % (DEPTH_MAX - 1),
                             .count = 1,
                             .value = random_next(seed) % 1000};
    for (uint32_t i = 0; i < sample->depth; i++)
        sample->functions[i] = random_next(seed) % 4;
}

static const char *const function_names[] = {"", "f", "ff", "g"};

static void add_naive(struct profile *p, const struct naive *sample)
{
    struct frame frames[DEPTH_MAX];
    struct resource resource = fixture_resource(sample->pid, "c");
    for (uint32_t i = 0; i < sample->depth; i++)
        frames[i] = fixture_native(function_names[sample->functions[i]]);
    assert_int_equal(fixture_add(p, &resource, sample->tid, "t", sample->value, frames, sample->depth), 0);
}

static uint32_t function_number(const struct profile *p, uint32_t frame)
{
    for (uint32_t i = 0; i < array_size(function_names); i++)
        if (strcmp(profile_text(p, p->frames[frame].function), function_names[i]) == 0)
            return i;
    fail_msg("a function that was never added");
    return 0;
}

/* Asserts that `p` holds exactly the rows of the reference. */
static void expect_naive(const struct profile *p, const struct naive *rows, size_t row_count)
{
    assert_int_equal(p->entry_count, row_count);
    for (uint32_t i = 0; i < p->entry_count; i++) {
        const struct profile_entry *entry = &p->entries[i];
        const struct profile_stack *stack = &p->stacks[entry->stack];
        struct naive seen = {.pid = p->resources[entry->resource].pid, .tid = entry->tid, .depth = stack->count};
        for (uint32_t j = 0; j < stack->count; j++)
            seen.functions[j] = function_number(p, p->stack_frames[stack->first + j]);
        size_t at = 0;
        while (at < row_count && memcmp(&rows[at], &seen, offsetof(struct naive, count)) != 0)
            at++;
        assert_true(at < row_count);
        assert_int_equal(entry->count, rows[at].count);
        assert_int_equal(entry->value, rows[at].value);
    }
}

static void test_random_samples_against_a_naive_reference(void **state)
{
    (void)state;
    enum { SAMPLES = 100000, ROWS = 30000 };
    struct naive *rows = calloc(ROWS, sizeof(*rows));
    size_t row_count = 0;
    uint64_t seed = 42, value = 0;
    _cleanup_(profile_freep) struct profile *whole = new_profile(0), *even = new_profile(0), *odd = new_profile(0);
    for (int i = 0; i < SAMPLES; i++) {
        struct naive sample;
        make_sample(&seed, &sample);
        sample.pid = sample.pid == 0 ? 1 : sample.pid; /* pid 0 means any in a filter */
        if (i % 10)
            sample.depth = sample.depth > 2 ? 2 : sample.depth; /* most are equal, some are not */
        for (uint32_t j = sample.depth; j < DEPTH_MAX; j++)
            sample.functions[j] = 0;
        add_naive(whole, &sample);
        add_naive(i % 2 ? odd : even, &sample);
        value += sample.value;
        size_t at = 0;
        while (at < row_count && memcmp(&rows[at], &sample, offsetof(struct naive, count)) != 0)
            at++;
        if (at == row_count) {
            assert_true(row_count < ROWS);
            rows[row_count++] = sample;
        } else {
            rows[at].count++;
            rows[at].value += sample.value;
        }
    }
    expect_naive(whole, rows, row_count);
    assert_int_equal(fixture_count(whole), SAMPLES);
    assert_int_equal(fixture_weight(whole), value);

    /* Two merged halves equal the whole. */
    _cleanup_(profile_freep) struct profile *merged = new_profile(0);
    assert_int_equal(profile_merge(merged, odd, NULL), 0);
    assert_int_equal(profile_merge(merged, even, NULL), 0);
    expect_naive(merged, rows, row_count);

    /* So do the processes, merged one by one. */
    uint64_t count = 0;
    for (uint32_t pid = 1; pid < 5; pid++) {
        _cleanup_(profile_freep) struct profile *one = new_profile(0);
        assert_int_equal(profile_merge(one, whole, &(struct profile_filter){.pid = pid}), 0);
        for (uint32_t i = 0; i < one->entry_count; i++)
            assert_int_equal(one->resources[one->entries[i].resource].pid, pid);
        count += fixture_count(one);
    }
    assert_int_equal(count, SAMPLES);
    free(rows);
}

static void test_filters_select_entries(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = new_profile(0);
    fixture_typical(p);
    const struct {
        struct profile_filter filter;
        uint64_t count;
    } cases[] = {
        {{0}, 10},
        {{.pid = 4711}, 6},
        {{.pid = 1}, 0},
        {{.container_id = "0123456789ab"}, 4},
        {{.container_id = "0123456789a"}, 0}, /* too short to be unambiguous */
        {{.container_id = "0123456789ac"}, 0},
        {{.container_id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}, 4},
        {{.container_id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0"}, 0},
        {{.container_id = ""}, 6}, /* those outside any container */
        {{.service_name = "shop"}, 6},
        {{.service_name = "sho"}, 0},
        {{.service_name = "shop", .pid = 99}, 0},
        {{.service_name = "train", .pid = 99, .container_id = "0123456789ab"}, 4},
    };
    for (size_t i = 0; i < array_size(cases); i++) {
        _cleanup_(profile_freep) struct profile *to = new_profile(0);
        assert_int_equal(profile_merge(to, p, &cases[i].filter), 0);
        assert_int_equal(fixture_count(to), cases[i].count);
        if (!cases[i].count)
            assert_int_equal(strings_count(to->strings), 1); /* only referenced strings are copied */
    }
}

static void test_merging_joins_times(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *to = new_profile(0), *a = new_profile(0), *b = new_profile(0),
                                            *none = new_profile(0);
    a->start_unix_ns = 1000;
    a->duration_ns = 100;
    a->period = 7;
    a->dropped = 2;
    b->start_unix_ns = 900;
    b->duration_ns = 50;
    b->dropped = 3;
    assert_int_equal(profile_merge(to, a, NULL), 0);
    assert_int_equal(profile_merge(to, none, NULL), 0);
    assert_int_equal(profile_merge(to, b, NULL), 0);
    assert_int_equal(to->start_unix_ns, 900);
    assert_int_equal(to->duration_ns, 200);
    assert_int_equal(to->period, 7);
    assert_int_equal(to->dropped, 5);
}

static void test_bound_is_kept(void **state)
{
    (void)state;
    for (size_t max_bytes = 1; max_bytes <= 1 << 20; max_bytes *= 4) {
        _cleanup_(profile_freep) struct profile *p = new_profile(max_bytes);
        size_t at_start = profile_bytes(p), most = max_bytes > at_start ? max_bytes : at_start;
        struct resource resource = fixture_resource(1, "a");
        uint64_t added = 0, refused = 0;
        for (int i = 0; i < 20000; i++) {
            char name[32];
            snprintf(name, sizeof(name), "function_%d", i);
            struct frame frames[] = {fixture_native(name), fixture_native("main")};
            int r = fixture_add(p, &resource, 1, "t", 1, frames, 2);
            assert_true(r == 0 || r == -ENOSPC);
            r == 0 ? added++ : refused++;
            assert_true(profile_bytes(p) <= most);
        }
        assert_true(refused > 0);
        assert_int_equal(p->dropped, refused);
        assert_int_equal(fixture_count(p), added);
        if (max_bytes >= 65536) {
            assert_true(added > 100);
            assert_true(profile_bytes(p) > max_bytes / 2); /* the memory up to the bound is used */
            /* Known stacks are still counted. */
            struct frame frames[] = {fixture_native("function_0"), fixture_native("main")};
            assert_int_equal(fixture_add(p, &resource, 1, "t", 1, frames, 2), 0);
            assert_int_equal(p->entries[0].count, 2);
        }
    }
}

static void test_merging_into_a_full_profile_counts(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *from = new_profile(0), *to = new_profile(32768);
    struct resource resource = fixture_resource(1, "a");
    for (int i = 0; i < 5000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "function_%d", i);
        struct frame frame = fixture_native(name);
        fixture_add(from, &resource, 1, "t", 1, &frame, 1);
        fixture_add(from, &resource, 1, "t", 1, &frame, 1);
    }
    assert_int_equal(profile_merge(to, from, NULL), -ENOSPC);
    assert_true(to->entry_count > 0 && to->dropped > 0);
    assert_int_equal(fixture_count(to) + to->dropped, 10000);
    assert_true(profile_bytes(to) <= 32768);
}

/* Texts are borrowed for one call: the caller may reuse the memory. */
static void test_texts_are_copied(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = new_profile(0);
    struct resource resource = fixture_resource(1, "a");
    char name[16], file[16], mapping[16], build_id[16];
    struct frame frame = {
        .kind = FRAME_NATIVE, .function = name, .file = file, .mapping = mapping, .build_id = build_id};
    char *const texts[] = {name, file, mapping, build_id};
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < array_size(texts); i++) {
            for (size_t j = 0; j < array_size(texts); j++)
                snprintf(texts[j], sizeof(name), "%s", i == j ? "changed" : "same");
            fixture_add(p, &resource, 1, "t", 1, &frame, 1);
        }
    assert_int_equal(p->frame_count, 4);
    assert_int_equal(p->entry_count, 4);
    for (uint32_t i = 0; i < p->entry_count; i++)
        assert_int_equal(p->entries[i].count, 2);
}

static void test_memory_per_entry_is_small(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = new_profile(0);
    assert_true(profile_bytes(p) < 16384);
}

static void test_folding_joins_interpreter_lines(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = new_profile(0), *folded = NULL;
    struct resource a = fixture_resource(1, "a");
    for (uint32_t line = 1; line <= 3; line++) {
        struct frame frame = fixture_native("run");
        frame.kind = line < 3 ? FRAME_INTERPRETED : FRAME_BPF;
        frame.file = "x.py";
        frame.line = line;
        fixture_add(p, &a, 1, "t", 1, &frame, 1);
    }
    assert_int_equal(p->entry_count, 3);
    assert_int_equal(profile_fold(p, &folded), 0);
    assert_int_equal(folded->entry_count, 2);
    for (uint32_t i = 0; i < folded->frame_count; i++)
        assert_int_equal(folded->frames[i].line, folded->frames[i].kind == FRAME_BPF ? 3 : 0);
}

static void test_folding_joins_equal_functions(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = new_profile(0), *folded = NULL;
    fixture_typical(p);
    p->dropped = 4;
    assert_int_equal(profile_fold(p, &folded), 0);
    assert_int_equal(fixture_count(folded), fixture_count(p));
    assert_int_equal(fixture_weight(folded), fixture_weight(p));
    assert_int_equal(folded->entry_count, p->entry_count - 1); /* the same function at two addresses */
    assert_int_equal(folded->start_unix_ns, p->start_unix_ns);
    assert_int_equal(folded->duration_ns, p->duration_ns);
    assert_int_equal(folded->period, p->period);
    assert_int_equal(folded->dropped, 4);
    bool unnamed = false, truncated = false;
    for (uint32_t i = 0; i < folded->frame_count; i++) {
        const struct profile_frame *frame = &folded->frames[i];
        assert_int_equal(frame->address, 0);
        assert_int_equal(frame->line, 0); /* a function is one frame for all its lines */
        unnamed = unnamed || strcmp(profile_text(folded, frame->function), "libcuda.so.1+0x4711") == 0;
        truncated = truncated || (frame->kind == FRAME_TRUNCATED &&
                                  strcmp(profile_text(folded, frame->function), "[truncated: no unwind table]") == 0);
    }
    assert_true(unnamed && truncated);
}

static void test_resources_round_trip(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = new_profile(0);
    const struct resource in = {1,    2,   "c",  "e",  "sn", "ss",     "sv",    "ci",
                                "cr", "k", "sl", "sy", "cg", "k\tv\n", "k\tp\n"};
    fixture_add(p, &in, 1, "t", 1, NULL, 0);
    const struct resource out = profile_resource_of(p, &p->resources[0]);
    assert_int_equal(out.pid, 1);
    assert_int_equal(out.parent_pid, 2);
    assert_string_equal(out.command, in.command);
    assert_string_equal(out.executable_path, in.executable_path);
    assert_string_equal(out.service_name, in.service_name);
    assert_string_equal(out.service_namespace, in.service_namespace);
    assert_string_equal(out.service_version, in.service_version);
    assert_string_equal(out.container_id, in.container_id);
    assert_string_equal(out.container_runtime, in.container_runtime);
    assert_string_equal(out.kubernetes_pod_uid, in.kubernetes_pod_uid);
    assert_string_equal(out.slurm_job_id, in.slurm_job_id);
    assert_string_equal(out.systemd_unit, in.systemd_unit);
    assert_string_equal(out.cgroup_path, in.cgroup_path);
    assert_string_equal(out.attributes, in.attributes);
    assert_string_equal(out.pod, in.pod);
}

/* Samples of different requests stay separate, also from samples without a request; merging keeps that, and folding for
 * display drops it. */
static void test_samples_differ_by_link(void **state)
{
    (void)state;
    _cleanup_(profile_freep) struct profile *p = new_profile(0), *to = new_profile(0), *folded = NULL;
    struct resource resource = fixture_resource(1, "a");
    const struct frame frames[] = {fixture_native("work")};
    const struct trace_link links[] = {{0}, {1, 2, 3}, {1, 2, 4}, {0, 2, 3}, {1, 2, 3}, {0, 0, 9}};
    for (size_t i = 0; i < array_size(links); i++) {
        const struct sample s = {.value = 1,
                                 .resource = &resource,
                                 .thread_name = "t",
                                 .frames = frames,
                                 .frame_count = 1,
                                 .link = links[i]};
        assert_int_equal(profile_add(p, &s), 0);
    }
    assert_int_equal(p->link_count, 3);
    assert_int_equal(p->entry_count, 4); /* a span without a trace is ignored */
    assert_int_equal(fixture_add(to, &resource, 0, "t", 1, frames, 1), 0);
    assert_int_equal(profile_merge(to, p, NULL), 0);
    assert_int_equal(profile_merge(to, p, NULL), 0);
    assert_int_equal(to->link_count, 3);
    assert_int_equal(to->entry_count, 4);
    for (uint32_t i = 0; i < to->entry_count; i++) {
        const struct profile_entry *e = &to->entries[i];
        const struct trace_link *l = e->link ? &to->links[e->link - 1] : NULL;
        const bool is_twice = l && l->trace_id_high == 1 && l->span_id == 3;
        assert_int_equal(e->count, !l ? 5 : is_twice ? 4 : 2);
        assert_true(!l || trace_link_is_set(l));
    }
    assert_int_equal(profile_fold(p, &folded), 0);
    assert_int_equal(folded->entry_count, 1);
    assert_int_equal(folded->entries[0].link, 0);
    assert_int_equal(folded->entries[0].count, 6);
}

/* Each sample belongs to a request of its own: all are kept, most without their link, and memory stays within the
 * bound. */
static void test_links_are_bounded_separately(void **state)
{
    (void)state;
    const size_t max_bytes = 256 << 10, samples = 100000;
    _cleanup_(profile_freep) struct profile *p = new_profile(max_bytes), *to = new_profile(max_bytes);
    struct resource resource = fixture_resource(1, "a");
    const struct frame frames[] = {fixture_native("work")}, others[] = {fixture_native("other")};
    struct sample s = {.value = 1, .resource = &resource, .thread_name = "t", .frames = frames, .frame_count = 1};
    size_t unlinked = 0, linked = 0;
    const size_t empty_bytes = profile_bytes(p);
    for (size_t i = 0; i < samples; i++) {
        s.link = (struct trace_link){1, 1 + i, 1};
        int r = profile_add(p, &s);
        assert_true(r == 0 || r == PROFILE_UNLINKED);
        unlinked += r == PROFILE_UNLINKED;
    }
    assert_true(p->link_count > 100 && p->link_count < 1000);
    assert_int_equal(p->dropped, 0);
    assert_int_equal(p->unlinked, unlinked);
    assert_true(profile_bytes(p) - empty_bytes <= max_bytes / 4);
    for (uint32_t i = 0; i < p->entry_count; i++)
        linked += p->entries[i].link ? p->entries[i].count : 0;
    assert_int_equal(linked + unlinked, samples);
    s.frames = others; /* there is space for everything else */
    assert_int_equal(profile_add(p, &s), PROFILE_UNLINKED);
    assert_int_equal(profile_merge(to, p, NULL), 0);
    assert_int_equal(to->dropped, 0);
    uint64_t count = 0;
    for (uint32_t i = 0; i < to->entry_count; i++)
        count += to->entries[i].count;
    assert_int_equal(count, samples + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_profile),
        cmocka_unit_test(test_equal_samples_are_one_entry),
        cmocka_unit_test(test_every_field_counts),
        cmocka_unit_test(test_stacks_differ_by_interpreter_frames),
        cmocka_unit_test(test_stacks_differ_by_length_and_order),
        cmocka_unit_test(test_stack_of_a_thousand_frames),
        cmocka_unit_test(test_hostile_names_are_kept),
        cmocka_unit_test(test_random_samples_against_a_naive_reference),
        cmocka_unit_test(test_samples_differ_by_link),
        cmocka_unit_test(test_links_are_bounded_separately),
        cmocka_unit_test(test_filters_select_entries),
        cmocka_unit_test(test_merging_joins_times),
        cmocka_unit_test(test_bound_is_kept),
        cmocka_unit_test(test_merging_into_a_full_profile_counts),
        cmocka_unit_test(test_texts_are_copied),
        cmocka_unit_test(test_memory_per_entry_is_small),
        cmocka_unit_test(test_folding_joins_equal_functions),
        cmocka_unit_test(test_folding_joins_interpreter_lines),
        cmocka_unit_test(test_resources_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
