/* From a wire record to a sample: which place is asked for, what is said and counted of what is missing.
 * Names, rows and kernel symbols are played by this file; the process table is the real one. */
#include "resolve/samples.h"

#include "base/clock.h"
#include "resolve/unwind.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "../emulated.h"

#define PROGRAM      0x40000000u /* PIDs of no process of this machine */
#define GONE         0x40000001u
#define EXEC_ADDRESS 0xffffffff81234500 /* in load_elf_binary */

/* ---- the other modules, played ---- */

static size_t name_padding; /* makes names long */

int symbols_find(struct symbols *s, struct object *object, uint64_t file_offset, struct symbol *ret)
{
    static char name[70000];
    (void)s;
    int n = snprintf(name, 128, "%s+%lx", strrchr(object->path, '/') + 1, (unsigned long)file_offset);
    memset(name + n, 'x', name_padding);
    name[(size_t)n + name_padding] = '\0';
    const int found = strcmp(object->path, "/lib/stripped.so") != 0;
    *ret =
        (struct symbol){.function = found ? name : "", .system_name = "", .address = file_offset + 0x10000};
    return found ? 0 : -ENOENT;
}

bool kernel_symbols_find(struct kernel_symbols *k, uint64_t address, struct frame *ret)
{
    static char names[8][32];
    static unsigned next;
    char *name = names[next++ % 8];
    (void)k;
    if (address == EXEC_ADDRESS)
        snprintf(name, sizeof(names[0]), "load_elf_binary");
    else
        snprintf(name, sizeof(names[0]), "k%lx", (unsigned long)address);
    *ret = (struct frame){.kind = FRAME_KERNEL,
                          .function = name,
                          .file = "",
                          .mapping = "[kernel.kallsyms]",
                          .build_id = "",
                          .address = address};
    return true;
}

#define FINISH_MORE 2

static enum unwind_end finish_end;
static size_t finish_more = FINISH_MORE;
static unsigned finish_calls;

int unwind_finish_sample(const struct cpu_sample *record, const struct process *process,
                         struct unwind_cache *cache, uint64_t *ret_frames, size_t max, size_t *ret_count)
{
    (void)cache;
    assert_non_null(process);
    assert_true(record->stack_bytes > 0);
    assert_true(max >= 2);
    finish_calls++;
    ret_frames[0] = 0x1101;
    ret_frames[1] = 0x1201;
    *ret_count = finish_more;
    return finish_end;
}

/* ---- fixture ---- */

struct fixture {
    struct processes *processes;
    struct sample_resolver *resolver;
    struct losses losses;
    union {
        struct cpu_sample record;
        char room[sizeof(struct cpu_sample) + 65536];
    } r;
};

static void tell_mmap(struct fixture *f, uint64_t start, uint64_t end, uint64_t offset, const char *path)
{
    union {
        struct process_mmap r;
        char room[sizeof(struct process_mmap) + 256];
    } m = {.r = {.start = start, .size_bytes = end - start, .file_offset = offset}};
    m.r.path_bytes = (uint16_t)(strlen(path) + 1);
    memcpy(m.r.path, path, m.r.path_bytes);
    m.r.h = (struct wire_header){.size_bytes = (sizeof(m.r) + m.r.path_bytes + 7) & ~7u,
                                 .kind = WIRE_PROCESS_MMAP,
                                 .time_ns = 12,
                                 .pid = PROGRAM,
                                 .tid = PROGRAM};
    processes_apply(f->processes, &m.r.h);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    *state = f;
    name_padding = 0;
    finish_end = UNWIND_END_ENTRY;
    assert_int_equal(processes_new(8 << 20, &f->processes), 0);
    assert_int_equal(sample_resolver_new(f->processes, NULL, NULL, NULL, &f->resolver), 0);
    const struct process_fork fork = {.h = {sizeof(fork), WIRE_PROCESS_FORK, 0, 10, PROGRAM, PROGRAM},
                                      .parent_pid = 1};
    processes_apply(f->processes, &fork.h);
    const struct process_exec exec = {.h = {sizeof(exec), WIRE_PROCESS_EXEC, 0, 11, PROGRAM, PROGRAM},
                                      .comm = "program"};
    processes_apply(f->processes, &exec.h);
    tell_mmap(f, 0x1000, 0x2000, 0x5000, "/bin/program");
    tell_mmap(f, 0x3000, 0x4000, 0, "/lib/stripped.so");
    tell_mmap(f, 0x8000, 0x9000, 0, "//anon");
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    sample_resolver_free(f->resolver);
    processes_free(f->processes);
    free(f);
    return 0;
}

static struct cpu_sample *make(struct fixture *f, uint32_t pid, unsigned kernel, unsigned user, unsigned end)
{
    struct cpu_sample *r = &f->r.record;
    *r = (struct cpu_sample){
        .weight_ns = 52631578,
        .cpu = 1,
        .kernel_frames = (uint16_t)kernel,
        .user_frames = (uint16_t)user,
        .user_end = (uint8_t)end,
        .comm = "thread",
    };
    r->h = (struct wire_header){.size_bytes = (uint32_t)(sizeof(*r) + (kernel + user) * 8),
                                .kind = WIRE_CPU_SAMPLE,
                                .time_ns = 20,
                                .pid = pid,
                                .tid = pid + 7};
    return r;
}

static uint64_t sum(const struct losses *l)
{
    uint64_t n = 0;
    for (int i = 0; i < LOSS_COUNT; i++)
        n += l->count[i];
    return n;
}

/* ---- tests ---- */

static void test_whole_stack(void **state)
{
    struct fixture *f = *state;
    struct cpu_sample *r = make(f, PROGRAM, 2, 4, UNWIND_END_ENTRY);
    const uint64_t data[] = {
        0xffffffff81000010,      0xffffffff81000020, 0x1000 | CPU_FRAME_EXACT, 0x1101, 0x2000,
        0x1fff | CPU_FRAME_EXACT};
    memcpy(r->data, data, sizeof(data));
    struct sample s;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, 6);
    assert_string_equal(s.frames[0].function, "kffffffff81000010"); /* the leaf is exact */
    assert_string_equal(s.frames[1].function, "kffffffff8100001f"); /* the call, not what follows it */
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
    assert_int_equal(s.weight_ns, 52631578);
    assert_string_equal(s.thread_name, "thread");
    assert_string_equal(s.resource->command, "program");
    assert_string_equal(s.resource->executable_path, "/bin/program");
    assert_int_equal(sum(&f->losses), 0);
}

static void test_unnamed_frames_are_counted(void **state)
{
    struct fixture *f = *state;
    struct cpu_sample *r = make(f, PROGRAM, 0, 3, UNWIND_END_ENTRY);
    const uint64_t data[] = {0x3123 | CPU_FRAME_EXACT, 0x8501, 0x7777};
    memcpy(r->data, data, sizeof(data));
    struct sample s;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_string_equal(s.frames[0].function, "");
    assert_string_equal(s.frames[0].mapping, "/lib/stripped.so");
    assert_true(s.frames[0].address == 0x10123);
    assert_string_equal(s.frames[1].mapping, "[anon]");
    assert_true(s.frames[1].address == 0x8500);
    assert_string_equal(s.frames[2].mapping, "");
    assert_int_equal(f->losses.count[LOSS_UNNAMED], 3);
    assert_int_equal(sum(&f->losses), 3);
}

static void test_every_end_is_said_and_counted(void **state)
{
    struct fixture *f = *state;
    static const struct {
        unsigned end;
        const char *text;
        enum loss_reason loss;
    } ends[] = {
        {UNWIND_END_ENTRY, NULL, LOSS_COUNT},
        {UNWIND_END_NO_USER, NULL, LOSS_COUNT},
        {UNWIND_END_NO_PROCESS, "mappings not known yet", LOSS_NO_ROWS},
        {UNWIND_END_NO_ROWS, "unwinding rows not ready", LOSS_NO_ROWS},
        {UNWIND_END_NO_MAPPING, "address outside all code", LOSS_TRUNCATED},
        {UNWIND_END_BAD_READ, "stack not readable", LOSS_TRUNCATED},
        {UNWIND_END_NO_CFI, "no unwinding rules", LOSS_TRUNCATED},
        {UNWIND_END_TOO_DEEP, "stack too deep", LOSS_TRUNCATED},
        {UNWIND_END_UNSUPPORTED, "unwinding rule not supported", LOSS_TRUNCATED},
        {200, "", LOSS_TRUNCATED}, /* of a newer kernel half */
    };
    for (size_t i = 0; i < array_size(ends); i++) {
        struct cpu_sample *r = make(f, PROGRAM, 0, 1, ends[i].end);
        r->data[0] = 0x1001 | CPU_FRAME_EXACT;
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
static void test_sample_in_the_middle_of_exec_has_no_user_part(void **state)
{
    struct fixture *f = *state;
    struct cpu_sample *r = make(f, PROGRAM, 2, 1, UNWIND_END_NO_MAPPING);
    r->data[0] = 0xffffffff81000010;
    r->data[1] = EXEC_ADDRESS + 1;
    r->data[2] = 0x7f0000001234;
    struct sample s;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, 2);
    assert_int_equal(sum(&f->losses), 0);
    r->data[2] = 0x1101; /* the stack has gone already, but its mappings are still what we know */
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, 2);
    r->user_end = UNWIND_END_ENTRY; /* before that point the old program is still there */
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, 3);
    assert_string_equal(s.frames[2].function, "program+5100");
    r->user_end = UNWIND_END_NO_MAPPING;
    r->data[1]--; /* no exec at all */
    r->data[2] = 0x7f0000001234;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, 4);
    assert_int_equal(s.frames[3].kind, FRAME_TRUNCATED);
}

static void test_kernel_part_cut(void **state)
{
    struct fixture *f = *state;
    struct cpu_sample *r = make(f, PROGRAM, 1, 1, UNWIND_END_ENTRY);
    r->flags = CPU_SAMPLE_KERNEL_TRUNCATED;
    r->data[0] = 0xffffffff81000010;
    r->data[1] = 0x1001;
    struct sample s;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, 3);
    assert_int_equal(s.frames[1].kind, FRAME_TRUNCATED);
    assert_string_equal(s.frames[2].function, "program+5000");
    assert_int_equal(f->losses.count[LOSS_TRUNCATED], 1);
}

static void test_copied_stack_is_finished(void **state)
{
    struct fixture *f = *state;
    for (int whole = 0; whole < 2; whole++) {
        struct cpu_sample *r = make(f, PROGRAM, 0, 1, UNWIND_END_NO_ROWS);
        r->data[0] = 0x1001 | CPU_FRAME_EXACT;
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

/* A frame pointer that was none: what it led to is no frame. */
static void test_frame_pointer_into_no_code(void **state)
{
    struct fixture *f = *state;
    for (int by_fp = 0; by_fp < 2; by_fp++) {
        struct cpu_sample *r = make(f, PROGRAM, 0, 2, UNWIND_END_NO_MAPPING);
        r->data[0] = 0x1001 | CPU_FRAME_EXACT;
        r->data[1] = 0x7f0000001234;
        r->flags = by_fp ? CPU_SAMPLE_STOP_BY_FP : 0;
        r->stack_bytes = 64;
        r->h.size_bytes += 64;
        finish_end = UNWIND_END_NO_MAPPING;
        finish_more = 0;
        struct losses losses = {0};
        struct sample s;
        assert_int_equal(sample_resolve(f->resolver, r, &losses, &s), 0);
        assert_int_equal(s.frame_count, by_fp ? 2 : 3);
        assert_int_equal(s.frames[s.frame_count - 1].kind, FRAME_TRUNCATED);
    }
    finish_more = FINISH_MORE;
}

/* Code mapped behind our back: the walk ends there, the mappings are read again, the walk is done again. */
static void test_copied_stack_is_walked_again_by_new_mappings(void **state)
{
    skip_if_emulated();
    struct fixture *f = *state;
    processes_at(f->processes, clock_monotonic_ns());
    assert_non_null(processes_find(f->processes, (uint32_t)getpid(), 0));
    int fd = open("/proc/self/exe", O_RDONLY);
    void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    close(fd);
    assert_ptr_not_equal(at, MAP_FAILED);
    struct cpu_sample *r = make(f, (uint32_t)getpid(), 0, 1, UNWIND_END_NO_MAPPING);
    r->h.time_ns = clock_monotonic_ns();
    r->data[0] = ((uintptr_t)at + 16) | CPU_FRAME_EXACT;
    r->stack_bytes = 64;
    r->h.size_bytes += 64;
    finish_end = UNWIND_END_NO_MAPPING;
    finish_calls = 0;
    struct sample s;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(finish_calls, 2);
    assert_non_null(strstr(s.frames[0].function, "+10"));
    finish_calls = 0; /* nothing is new now, and it is too soon to look */
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(finish_calls, 1);
    munmap(at, 4096);
}

static void test_unknown_process_is_still_a_sample(void **state)
{
    struct fixture *f = *state;
    struct cpu_sample *r = make(f, GONE, 1, 1, UNWIND_END_NO_PROCESS);
    memcpy(r->comm, "sixteen-letters!", 16); /* no NUL */
    r->data[0] = 0xffffffff81000010;
    r->data[1] = 0x4242 | CPU_FRAME_EXACT;
    r->stack_bytes = 64;
    r->h.size_bytes += 64;
    struct sample s;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), -ENOENT);
    assert_int_equal(f->losses.count[LOSS_NO_PROCESS], 1);
    assert_int_equal(f->losses.count[LOSS_NO_ROWS], 1);
    assert_int_equal(s.resource->pid, GONE);
    assert_string_equal(s.resource->command, "sixteen-letters!");
    assert_string_equal(s.resource->service_name, "sixteen-letters!");
    assert_string_equal(s.resource->container_id, "");
    assert_string_equal(s.thread_name, "sixteen-letters!");
    assert_int_equal(s.frame_count, 3);
    assert_true(s.frames[1].address == 0x4242);
}

static void test_record_that_makes_no_sense(void **state)
{
    struct fixture *f = *state;
    struct sample s;
    struct cpu_sample *r = make(f, PROGRAM, 2, 4, UNWIND_END_ENTRY);
    r->h.size_bytes -= 8;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), -EBADMSG);
    r = make(f, PROGRAM, CPU_MAX_KERNEL_FRAMES + 1, 0, UNWIND_END_ENTRY);
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), -EBADMSG);
    r = make(f, PROGRAM, 0, CPU_MAX_USER_FRAMES + 1, UNWIND_END_ENTRY);
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), -EBADMSG);
    r = make(f, PROGRAM, 0, 1, UNWIND_END_ENTRY);
    r->stack_bytes = CPU_STACK_COPY_BYTES;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), -EBADMSG);
    assert_int_equal(s.frame_count, 0);
    assert_non_null(s.resource);
    assert_int_equal(f->losses.count[LOSS_DECODE], 4);
    assert_int_equal(sum(&f->losses), 4);
}

static void test_deepest_stack_with_long_names(void **state)
{
    struct fixture *f = *state;
    struct cpu_sample *r = make(f, PROGRAM, CPU_MAX_KERNEL_FRAMES, CPU_MAX_USER_FRAMES, UNWIND_END_TOO_DEEP);
    r->flags = CPU_SAMPLE_KERNEL_TRUNCATED;
    for (size_t i = 0; i < CPU_MAX_KERNEL_FRAMES + CPU_MAX_USER_FRAMES; i++)
        r->data[i] = 0x1001;
    struct sample s;
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(s.frame_count, CPU_MAX_KERNEL_FRAMES + CPU_MAX_USER_FRAMES + 2);
    assert_int_equal(s.frames[s.frame_count - 1].kind, FRAME_TRUNCATED);
    assert_int_equal(f->losses.count[LOSS_UNNAMED], 0);

    name_padding =
        65536; /* 64 MiB of names: past what a sample may hold; the rest goes without, and is counted */
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(strlen(s.frames[CPU_MAX_KERNEL_FRAMES + 1].function), strlen("program+5000") + 65536);
    assert_true(f->losses.count[LOSS_UNNAMED] > 900);

    name_padding = 0; /* and the room is there again */
    f->losses = (struct losses){0};
    assert_int_equal(sample_resolve(f->resolver, r, &f->losses, &s), 0);
    assert_int_equal(f->losses.count[LOSS_UNNAMED], 0);
}

static void test_stacks_of_other_records(void **state)
{
    struct fixture *f = *state;
    struct frame frames[3];
    const uint64_t addresses[] = {0x1101 | CPU_FRAME_EXACT, 0x1201, 0x1301, 0x1401};
    const struct process *process = processes_find(f->processes, PROGRAM, 0);
    assert_int_equal(
        sample_resolve_user(f->resolver, process, addresses, 4, UNWIND_END_ENTRY, &f->losses, frames, 3), 3);
    assert_string_equal(frames[0].function, "program+5101");
    assert_string_equal(frames[2].function, "program+5300");
    assert_int_equal(
        sample_resolve_user(f->resolver, process, addresses, 2, UNWIND_END_NO_ROWS, &f->losses, frames, 3),
        3);
    assert_int_equal(frames[2].kind, FRAME_TRUNCATED);
    assert_int_equal(f->losses.count[LOSS_NO_ROWS], 1);
    assert_int_equal(sample_resolve_kernel(f->resolver, addresses, 2, frames, 3), 2);
    assert_string_equal(frames[1].function, "k1200");
    assert_int_equal(
        sample_resolve_user(f->resolver, NULL, addresses, 1, UNWIND_END_ENTRY, &f->losses, frames, 3), 1);
    assert_string_equal(frames[0].mapping, "");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_whole_stack),
        TEST(test_unnamed_frames_are_counted),
        TEST(test_every_end_is_said_and_counted),
        TEST(test_sample_in_the_middle_of_exec_has_no_user_part),
        TEST(test_frame_pointer_into_no_code),
        TEST(test_kernel_part_cut),
        TEST(test_copied_stack_is_finished),
        TEST(test_copied_stack_is_walked_again_by_new_mappings),
        TEST(test_unknown_process_is_still_a_sample),
        TEST(test_record_that_makes_no_sense),
        TEST(test_deepest_stack_with_long_names),
        TEST(test_stacks_of_other_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
