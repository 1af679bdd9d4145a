/* From an event record to a sample: which address is looked up, and how missing parts are marked and counted. */
#include "../sample_fixture.h"

#include "../../emulated.h"

/* ---- tests ---- */

/* At the end of the record. */
static void test_link_ids_are_read(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_cpu_sample(f, PROGRAM, 0, 1, UNWIND_END_ENTRY);
    const struct link_ids ids = {1, 2, 3};
    struct sample s;
    r->data[0] = 0x1000 | FRAME_EXACT;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_false(trace_link_is_set(&s.link));
    r->flags |= STACK_RECORD_LINKED;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), -EBADMSG); /* the record has no link */
    assert_int_equal(f->losses.count[LOSS_DECODE], 1);
    memcpy(&r->data[1], &ids, sizeof(ids));
    r->h.size_bytes += sizeof(ids);
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, 1);
    assert_true(s.link.trace_id_high == 1 && s.link.trace_id_low == 2 && s.link.span_id == 3);
    assert_int_equal(sum(&f->losses), 1);
}

static void put_label(struct go_label *to, const char *key, const char *value)
{
    const size_t key_bytes = strlen(key), value_bytes = strlen(value);
    memset(to, 'x', sizeof(*to)); /* left over from another sample */
    to->key_bytes = (uint32_t)key_bytes;
    to->value_bytes = (uint32_t)value_bytes;
    memcpy(to->key, key, key_bytes < sizeof(to->key) ? key_bytes : sizeof(to->key));
    memcpy(to->value, value, value_bytes < sizeof(to->value) ? value_bytes : sizeof(to->value));
}

/* At the end of the record, before links. Returned in order, as UTF-8, each key once; truncated ones are marked. */
static void test_labels_are_read(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_cpu_sample(f, PROGRAM, 0, 1, UNWIND_END_ENTRY);
    struct go_label *labels = (struct go_label *)&r->data[1];
    const struct link_ids ids = {1, 2, 3};
    struct sample s;
    char long_value[200], long_key[60];
    memset(long_key, 'k', sizeof(long_key) - 1);
    long_key[sizeof(long_key) - 1] = '\0';
    memset(long_value, 'v', sizeof(long_value));
    memcpy(long_value + GO_LABEL_VALUE_BYTES - 2, "\xE2\x82\xAC", 4); /* a character of three bytes: two fit */
    r->data[0] = 0x1000 | FRAME_EXACT;
    r->labels = 7;
    r->flags |= STACK_RECORD_LINKED;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), -EBADMSG); /* there are none */
    put_label(&labels[0], "tenant", "one");
    put_label(&labels[1], "a", "b\xff");
    put_label(&labels[2], "", "of no key");
    put_label(&labels[3], "tenant", "two");
    put_label(&labels[4], "empty", "");
    put_label(&labels[5], "b", long_value);
    put_label(&labels[6], long_key, "1");
    memcpy(&labels[7], &ids, sizeof(ids));
    r->h.size_bytes += 7 * sizeof(labels[0]) + sizeof(ids);
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, 1);
    assert_int_equal(s.link.span_id, 3);
    assert_int_equal(s.label_count, 5);
    memcpy(long_value + GO_LABEL_VALUE_BYTES - 2, "…", sizeof("…"));
    memcpy(long_key + GO_LABEL_KEY_BYTES, "…", sizeof("…"));
    const char *const expected[][2] = {
        {"a", "b\xEF\xBF\xBD"}, {"b", long_value}, {"empty", ""}, {long_key, "1"}, {"tenant", "one"}};
    for (size_t i = 0; i < s.label_count; i++) {
        assert_string_equal(s.labels[i].key, expected[i][0]);
        assert_string_equal(s.labels[i].value, expected[i][1]);
    }
    r->labels = GO_LABELS_MAX + 1;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), -EBADMSG);
    assert_int_equal(s.label_count, 0);
    assert_int_equal(f->losses.count[LOSS_DECODE], 2);
}

static void test_complete_stack(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_cpu_sample(f, PROGRAM, 2, 4, UNWIND_END_ENTRY);
    const uint64_t data[] = {0xffffffff81000010,  0xffffffff81000020, 0x1000 | FRAME_EXACT, 0x1101, 0x2000,
                             0x1fff | FRAME_EXACT};
    memcpy(r->data, data, sizeof(data));
    struct sample s;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, 6);
    assert_string_equal(s.frames[0].function, "kffffffff81000010"); /* the leaf is exact */
    assert_string_equal(s.frames[1].function, "kffffffff8100001f"); /* the call, not the instruction after it */
    assert_true(s.frames[1].address == 0xffffffff81000020);
    assert_string_equal(s.frames[2].function, "program+5000"); /* exact, first byte of the mapping */
    assert_string_equal(s.frames[3].function, "program+5100");
    assert_string_equal(s.frames[4].function, "program+5fff"); /* a call as the mapping's last instruction */
    assert_string_equal(s.frames[5].function, "program+5fff"); /* interrupted by a signal: exact */
    assert_true(s.frames[2].address == 0x15000);
    assert_string_equal(s.frames[2].mapping, "/bin/program");
    assert_int_equal(s.frames[2].kind, FRAME_NATIVE);
    assert_int_equal(s.tid, PROGRAM + 7);
    assert_int_equal(s.cpu, 1);
    assert_int_equal(s.value, 52631578);
    assert_string_equal(s.thread_name, "thread");
    assert_string_equal(s.resource->command, "program");
    assert_string_equal(s.resource->executable_path, "/bin/program");
    assert_int_equal(sum(&f->losses), 0);
}

static void test_sample_with_unnamed_frames_is_counted_once(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_cpu_sample(f, PROGRAM, 0, 3, UNWIND_END_ENTRY);
    const uint64_t data[] = {0x3123 | FRAME_EXACT, 0x8501, 0x7777};
    memcpy(r->data, data, sizeof(data));
    struct sample s;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_string_equal(s.frames[0].function, "");
    assert_string_equal(s.frames[0].mapping, "/lib/stripped.so");
    assert_true(s.frames[0].address == 0x10123);
    assert_string_equal(s.frames[1].mapping, "[anon]");
    assert_true(s.frames[1].address == 0x8500);
    assert_string_equal(s.frames[2].mapping, "");
    assert_int_equal(f->losses.count[LOSS_UNNAMED], 1);
    assert_int_equal(sum(&f->losses), 1);
}

static void test_every_truncation_is_named_and_counted(void **state)
{
    struct fixture *f = *state;
    static const struct {
        unsigned end;
        const char *text;
        enum loss_reason loss;
    } ends[] = {
        {UNWIND_END_ENTRY, NULL, LOSS_COUNT},
        {UNWIND_END_NO_USER, NULL, LOSS_COUNT},
        {UNWIND_END_NO_PROCESS, "mappings not known yet", LOSS_NO_UNWIND_TABLE},
        {UNWIND_END_NO_TABLE, "unwind table not ready", LOSS_NO_UNWIND_TABLE},
        {UNWIND_END_NO_MAPPING, "address outside all code", LOSS_TRUNCATED},
        {UNWIND_END_BAD_READ, "stack not readable", LOSS_TRUNCATED},
        {UNWIND_END_NO_CFI, "no unwinding rules", LOSS_TRUNCATED},
        {UNWIND_END_TOO_DEEP, "stack too deep", LOSS_TRUNCATED},
        {UNWIND_END_UNSUPPORTED, "unwinding rule not supported", LOSS_TRUNCATED},
        {200, "", LOSS_TRUNCATED}, /* from a newer BPF side */
    };
    for (size_t i = 0; i < array_size(ends); i++) {
        struct stack_record *r = make_cpu_sample(f, PROGRAM, 0, 1, ends[i].end);
        r->data[0] = 0x1001 | FRAME_EXACT;
        struct losses losses = {0};
        struct sample s;
        assert_int_equal(sample_resolve(f->resolver, r, &losses, &s), 0);
        assert_int_equal(s.frame_count, ends[i].text ? 2 : 1);
        if (ends[i].text) {
            assert_int_equal(s.frames[1].kind, FRAME_TRUNCATED);
            assert_string_equal(s.frames[1].function, ends[i].text);
            assert_int_equal(losses.count[ends[i].loss], 1);
        }
        assert_int_equal(sum(&losses), ends[i].text ? 1 : 0);
    }
}

/* The old program's registers, the new one's memory. */
static void test_sample_during_exec_has_no_user_part(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_cpu_sample(f, PROGRAM, 2, 1, UNWIND_END_NO_MAPPING);
    r->data[0] = 0xffffffff81000010;
    r->data[1] = EXEC_ADDRESS + 1;
    r->data[2] = 0x7f0000001234;
    struct sample s;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, 2);
    assert_int_equal(sum(&f->losses), 0);
    r->data[2] = 0x1101; /* the stack is gone already, but its mappings are still the known ones */
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, 2);
    r->user_end = UNWIND_END_ENTRY; /* before that point the old program is still in place */
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, 3);
    assert_string_equal(s.frames[2].function, "program+5100");
    r->user_end = UNWIND_END_NO_MAPPING;
    r->data[1]--; /* not an exec */
    r->data[2] = 0x7f0000001234;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, 4);
    assert_int_equal(s.frames[3].kind, FRAME_TRUNCATED);
}

/* A record of its new name may be lost, or late; the stack of a wait may be older than the name. */
static void test_main_thread_sample_renames_the_process(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_cpu_sample(f, PROGRAM, 0, 1, UNWIND_END_ENTRY);
    struct sample s;
    r->data[0] = 0x1001 | FRAME_EXACT;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_string_equal(s.resource->command, "program");
    r->h.tid = PROGRAM;
    r->h.kind = RECORD_OFF_CPU_STACK;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_string_equal(s.resource->command, "program");
    r->h.kind = RECORD_CPU_SAMPLE;
    r->h.time_ns = 1; /* before its exec */
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_string_equal(s.resource->command, "program");
    r->h.time_ns = 20;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_string_equal(s.resource->command, "thread");
}

static void test_truncated_kernel_part(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_cpu_sample(f, PROGRAM, 1, 1, UNWIND_END_ENTRY);
    r->flags = STACK_RECORD_KERNEL_TRUNCATED;
    r->data[0] = 0xffffffff81000010;
    r->data[1] = 0x1001;
    struct sample s;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, 3);
    assert_int_equal(s.frames[1].kind, FRAME_TRUNCATED);
    assert_string_equal(s.frames[2].function, "program+5000");
    assert_int_equal(f->losses.count[LOSS_TRUNCATED], 1);
}

/* The unwinder has no rules there, or takes the callee for the caller. */
static void test_kernel_part_at_a_retpoline(void **state)
{
    struct fixture *f = *state;
    struct sample s;
    struct stack_record *r = make_cpu_sample(f, PROGRAM, 1, 1, UNWIND_END_ENTRY);
    r->data[0] = RETPOLINE_ADDRESS;
    r->data[1] = 0x1001;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, 3);
    assert_int_equal(s.frames[1].kind, FRAME_TRUNCATED);
    r = make_cpu_sample(f, PROGRAM, 2, 1, UNWIND_END_ENTRY);
    r->data[0] = RETPOLINE_ADDRESS;
    r->data[1] = CALL_ADDRESS; /* within a function, as the byte before it is */
    r->data[2] = 0x1001;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, 4);
    assert_int_equal(s.frames[2].kind, FRAME_TRUNCATED);
    assert_int_equal(f->losses.count[LOSS_TRUNCATED], 2);
    r = make_cpu_sample(f, PROGRAM, 3, 1, UNWIND_END_ENTRY);
    r->data[0] = RETPOLINE_ADDRESS;
    r->data[1] = 0xffffffff81000010; /* where one begins */
    r->data[2] = 0xffffffff81000020;
    r->data[3] = 0x1001;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, 4); /* the thunk and the caller; two frames are marked as truncated */
    assert_string_equal(s.frames[1].function, "kffffffff8100001f");
}

static void test_copied_stack_is_finished(void **state)
{
    struct fixture *f = *state;
    for (int whole = 0; whole < 2; whole++) {
        struct stack_record *r = make_cpu_sample(f, PROGRAM, 0, 1, UNWIND_END_NO_TABLE);
        r->data[0] = 0x1001 | FRAME_EXACT;
        r->stack_bytes = 64;
        r->h.size_bytes += 64;
        finish_end = whole ? UNWIND_END_ENTRY : UNWIND_END_BAD_READ;
        struct losses losses = {0};
        struct sample s;
        assert_int_equal(sample_resolve(f->resolver, r, &losses, &s), 0);
        assert_int_equal(s.frame_count, whole ? 3 : 4);
        assert_string_equal(s.frames[1].function, "program+5100");
        assert_string_equal(s.frames[2].function, "program+5200");
        assert_int_equal(losses.count[LOSS_TRUNCATED], !whole);
        assert_int_equal(sum(&losses), !whole);
    }
}

/* An address from a failed walk is no frame: from an invalid frame pointer, or from rules on a modified stack. */
static void test_address_outside_code_is_no_caller(void **state)
{
    struct fixture *f = *state;
    for (int by_fp = 0; by_fp < 2; by_fp++) {
        struct stack_record *r = make_cpu_sample(f, PROGRAM, 0, 2, UNWIND_END_NO_MAPPING);
        r->data[0] = 0x1001 | FRAME_EXACT;
        r->data[1] = 0x7f0000001234;
        r->flags = by_fp ? STACK_RECORD_STOP_BY_FP : 0;
        r->stack_bytes = 64;
        r->h.size_bytes += 64;
        finish_end = UNWIND_END_NO_MAPPING;
        finish_more = 0;
        struct losses losses = {0};
        struct sample s;
        assert_int_equal(sample_resolve(f->resolver, r, &losses, &s), 0);
        assert_int_equal(s.frame_count, 2);
        assert_int_equal(s.frames[1].kind, FRAME_TRUNCATED);
        assert_string_equal(s.frames[1].function, by_fp ? "no unwinding rules" : "address outside all code");
    }
    finish_more = FINISH_MORE;
}

/* Code mapped without a record: the walk ends there, the mappings are read again, and the walk is repeated. */
static void test_copied_stack_is_walked_again_with_new_mappings(void **state)
{
    skip_if_emulated();
    struct fixture *f = *state;
    processes_at(f->processes, clock_monotonic_ns());
    assert_non_null(processes_find(f->processes, (uint32_t)getpid(), 0));
    int fd = open("/proc/self/exe", O_RDONLY);
    void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    close(fd);
    assert_ptr_not_equal(at, MAP_FAILED);
    struct stack_record *r = make_cpu_sample(f, (uint32_t)getpid(), 0, 1, UNWIND_END_NO_MAPPING);
    r->h.time_ns = clock_monotonic_ns();
    r->data[0] = ((uintptr_t)at + 16) | FRAME_EXACT;
    r->stack_bytes = 64;
    r->h.size_bytes += 64;
    finish_end = UNWIND_END_NO_MAPPING;
    finish_calls = 0;
    struct sample s;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(finish_calls, 2);
    assert_non_null(strstr(s.frames[0].function, "+10"));
    char self[PATH_MAX] = "";
    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    assert_string_equal(s.resource->executable_path, self); /* of the new mappings, not of the old ones */
    finish_calls = 0;                                       /* nothing is new now, and it is too soon to read again */
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(finish_calls, 1);
    munmap(at, 4096);
}

static void test_sample_of_unknown_process_is_kept(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_cpu_sample(f, GONE, 1, 1, UNWIND_END_NO_PROCESS);
    memcpy(r->comm, "sixteen-letters!", 16); /* no NUL */
    r->data[0] = 0xffffffff81000010;
    r->data[1] = 0x4242 | FRAME_EXACT;
    r->stack_bytes = 64;
    r->h.size_bytes += 64;
    struct sample s;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), -ENOENT);
    assert_int_equal(f->losses.count[LOSS_NO_PROCESS], 1);
    assert_int_equal(f->losses.count[LOSS_NO_UNWIND_TABLE], 1);
    assert_int_equal(s.resource->pid, GONE);
    assert_string_equal(s.resource->command, "sixteen-letters!");
    assert_string_equal(s.resource->service_name, "sixteen-letters!");
    assert_string_equal(s.resource->container_id, "");
    assert_string_equal(s.thread_name, "sixteen-letters!");
    assert_int_equal(s.frame_count, 3);
    assert_true(s.frames[1].address == 0x4242);
}

/* It has no process, so none is missing. */
static void test_interrupt_has_no_process(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_cpu_sample(f, 0, 1, 0, UNWIND_END_NO_USER);
    struct sample s;
    r->h.kind = RECORD_OFF_CPU_WAKER;
    r->data[0] = 0xffffffff81000010;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), -ENOENT);
    assert_int_equal(s.frame_count, 1);
    for (int i = 0; i < LOSS_COUNT; i++)
        assert_int_equal(f->losses.count[i], 0);
}

/* The frames that captured the stack are omitted; a program that an interrupt hit is kept. */
static void test_stack_capture_frames_are_omitted(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_cpu_sample(f, 0, 7, 0, UNWIND_END_NO_USER);
    static const uint64_t addresses[] = {BPF_ADDRESS,        0xffffffff81000020, BPF_ADDRESS,       CALL_ADDRESS,
                                         0xffffffff81000030, BPF_ADDRESS,        0xffffffff81000040};
    struct sample s;
    r->h.kind = RECORD_OFF_CPU_WAKER;
    memcpy(r->data, addresses, sizeof(addresses));
    sample_resolve(f->resolver, r, &f->losses, &s);
    assert_int_equal(s.frame_count, 3);
    assert_true(s.frames[0].address == 0xffffffff81000030);
    assert_int_equal(s.frames[1].kind, FRAME_BPF);
}

static void test_invalid_records_are_refused(void **state)
{
    struct fixture *f = *state;
    struct sample s;
    struct stack_record *r = make_cpu_sample(f, PROGRAM, 2, 4, UNWIND_END_ENTRY);
    r->h.size_bytes -= 8;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), -EBADMSG);
    r = make_cpu_sample(f, PROGRAM, STACK_MAX_KERNEL_FRAMES + 1, 0, UNWIND_END_ENTRY);
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), -EBADMSG);
    r = make_cpu_sample(f, PROGRAM, 0, STACK_MAX_USER_FRAMES + 1, UNWIND_END_ENTRY);
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), -EBADMSG);
    r = make_cpu_sample(f, PROGRAM, 0, 1, UNWIND_END_ENTRY);
    r->stack_bytes = STACK_COPY_BYTES;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), -EBADMSG);
    assert_int_equal(s.frame_count, 0);
    assert_non_null(s.resource);
    assert_int_equal(f->losses.count[LOSS_DECODE], 4);
    assert_int_equal(sum(&f->losses), 4);
}

static void test_deepest_stack_with_long_names(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r =
        make_cpu_sample(f, PROGRAM, STACK_MAX_KERNEL_FRAMES, STACK_MAX_USER_FRAMES, UNWIND_END_TOO_DEEP);
    r->flags = STACK_RECORD_KERNEL_TRUNCATED;
    for (size_t i = 0; i < STACK_MAX_KERNEL_FRAMES + STACK_MAX_USER_FRAMES; i++)
        r->data[i] = 0x1001;
    struct sample s;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, STACK_MAX_KERNEL_FRAMES + STACK_MAX_USER_FRAMES + 2);
    assert_int_equal(s.frames[s.frame_count - 1].kind, FRAME_TRUNCATED);
    assert_int_equal(f->losses.count[LOSS_UNNAMED], 0);

    name_padding = 65536; /* 64 MiB of names: more than a sample may hold; the rest is omitted, and counted */
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(strlen(s.frames[STACK_MAX_KERNEL_FRAMES + 1].function), strlen("program+5000") + 65536);
    assert_string_equal(s.frames[STACK_MAX_KERNEL_FRAMES + STACK_MAX_USER_FRAMES].function, "");
    assert_int_equal(f->losses.count[LOSS_UNNAMED], 1);

    name_padding = 0; /* and the space is free again */
    f->losses = (struct losses){0};
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(f->losses.count[LOSS_UNNAMED], 0);
}

static void test_walked_record_gives_the_same_sample(void **state)
{
    struct fixture *f = *state;
    struct stack_record *r = make_cpu_sample(f, PROGRAM, 1, 1, UNWIND_END_NO_TABLE);
    r->data[0] = 0xffffffff81000000;
    r->data[1] = 0x1301 | FRAME_EXACT;
    assert_ptr_equal(sample_walk_copy(f->resolver, r), r); /* it has no copy */
    r->stack_bytes = 64;
    r->flags = STACK_RECORD_REGISTERS | STACK_RECORD_LINKED;
    r->h.size_bytes += 64 + 8 * STACK_RECORD_REGISTER_COUNT;
    const struct link_ids ids = {1, 2, 3};
    memcpy((char *)r + r->h.size_bytes, &ids, sizeof(ids));
    r->h.size_bytes += sizeof(ids);
    char whole[1024];
    snprintf(whole, sizeof(whole), "%s", resolved(f, r));
    const struct stack_record *walked = sample_walk_copy(f->resolver, r);
    assert_int_equal(walked->h.size_bytes, sizeof(*r) + 8 * 4 + sizeof(ids));
    assert_int_equal(walked->user_end, UNWIND_END_ENTRY);
    assert_string_equal(resolved(f, walked), whole);
    struct sample s;
    assert_int_equal(sample_resolve(f->resolver, walked, &f->losses, &s), 0);
    assert_int_equal(s.link.span_id, 3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_walked_record_gives_the_same_sample),
        TEST(test_complete_stack),
        TEST(test_link_ids_are_read),
        TEST(test_labels_are_read),
        TEST(test_sample_with_unnamed_frames_is_counted_once),
        TEST(test_every_truncation_is_named_and_counted),
        TEST(test_sample_during_exec_has_no_user_part),
        TEST(test_address_outside_code_is_no_caller),
        TEST(test_main_thread_sample_renames_the_process),
        TEST(test_truncated_kernel_part),
        TEST(test_kernel_part_at_a_retpoline),
        TEST(test_copied_stack_is_finished),
        TEST(test_copied_stack_is_walked_again_with_new_mappings),
        TEST(test_sample_of_unknown_process_is_kept),
        TEST(test_interrupt_has_no_process),
        TEST(test_stack_capture_frames_are_omitted),
        TEST(test_invalid_records_are_refused),
        TEST(test_deepest_stack_with_long_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
