/* Stacks of threads that were asleep before the recording began: a recorded stack equals the thread's memory, except
 * that return addresses are those from before a uretprobe replaced them. Nothing is recorded if reading the memory
 * would wait for another process, or if the thread ran meanwhile. */
#include "subjects.h"
#include "threads.h"
#include "uprobes.h"
#include "watch.h"

#include "base/cleanup.h"
#include "probes/offcpu.h"
#include "sources/offcpu/sleeping_tasks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#define PAGE       4096
#define STACK      (4 * PAGE)
#define SLEEPERS   64
#define ROUNDS     40
#define DEEP_BYTES (28 * 1024)
#define CALLS      50
#define SMALL_RING (1 << 20) /* enough for half of them */

/* Skips the case. */
static void skip_if_unsupported(void)
{
    static struct attach_report report;
    void *self;
    if (report.count == 0) {
        struct shared_tables *tables = watch_tables(&watch_defaults, false);
        const struct source_services services = watch_services(&watch_defaults, tables);
        assert_int_equal(source_off_cpu.open(&services, &watch_defaults.off_cpu, &report, &self), 0);
        source_off_cpu.free(self);
        shared_tables_free(tables);
    }
    const struct attach_entry *entry = &report.entries[report.count - 1];
    assert_string_equal(entry->probe, "stacks of sleeping tasks");
    if (entry->fallback_reason[0]) {
        print_message("no stacks of sleeping tasks here: %s\n", entry->fallback_reason);
        skip();
    }
}

/* Asserts that it is still running, and kills it. */
static void end(pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

static struct watch watch(const pid_t *pids, size_t count, size_t ring_bytes)
{
    struct watch_options options = watch_defaults;
    for (size_t i = 0; i < count; i++)
        options.filter.pids[i] = (uint32_t)pids[i];
    options.filter.pid_count = count;
    options.ring_bytes = ring_bytes;
    return watch_begin(&source_off_cpu, &options);
}

static double copies_by_result(const struct watch *w, const char *result)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    assert_int_equal(metric_set_new(&set), 0);
    w->source->metrics(w->self, set);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family family = metric_set_family(set, i);
        for (size_t n = 0; strcmp(family.name, "sonde_self_earlier_stacks") == 0 && n < family.point_count; n++)
            if (strcmp(family.points[n].labels[0].value, result) == 0)
                return family.points[n].value;
    }
    fail_msg("no figure of those that are %s", result);
    return 0;
}

static bool is_copy(const struct record_header *header)
{
    const struct stack_record *s = (const struct stack_record *)header;
    return header->kind == RECORD_OFF_CPU_STACK && s->user_end == UNWIND_END_NOT_RUNNING && s->stack_bytes > 0;
}

/* ---- a task that sleeps all the time ---- */

static void wait_forever(int ready)
{
    volatile uint64_t known[64];
    for (size_t i = 0; i < array_size(known); i++)
        known[i] = 0x5011de0000 + i;
    if (write(ready, "", 1) == 1)
        for (;;)
            syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
    _exit((int)known[0]);
}

struct seen {
    uint64_t kernel_alone_ns;
    size_t copies;
};

static bool check_copy(const struct record_header *header, void *context)
{
    static char memory[STACK_COPY_BYTES];
    const struct stack_record *s = (const struct stack_record *)header;
    struct seen *seen = context;
    if (header->kind != RECORD_OFF_CPU_STACK)
        return false;
    assert_int_equal(s->user_end, UNWIND_END_NOT_RUNNING);
    assert_true(s->kernel_frames > 0 && s->cgroup_id > 0);
    if (!is_copy(header)) {
        seen->kernel_alone_ns = header->time_ns;
        return false;
    }
    assert_int_equal(header->time_ns, seen->kernel_alone_ns);
    assert_int_equal(s->user_frames, 1);
    assert_true(s->data[s->kernel_frames] == (s->stop_ip | FRAME_EXACT));
    assert_true(s->flags & STACK_RECORD_STOP_INTERRUPTED);
    const struct iovec ours = {memory, s->stack_bytes}, theirs = {(void *)(s->stop_sp & ~7ULL), s->stack_bytes};
    assert_int_equal(process_vm_readv((pid_t)header->pid, &ours, 1, &theirs, 1, 0), s->stack_bytes);
    assert_memory_equal(memory, s->data + s->kernel_frames + 1, s->stack_bytes);
    static const uint64_t known[] = {0x5011de0000, 0x5011de0001, 0x5011de0002};
    assert_non_null(memmem(memory, s->stack_bytes, known, sizeof(known)));
    seen->copies++;
    return true;
}

static void test_copied_stack_equals_the_task_memory(void **state)
{
    (void)state;
    skip_if_unsupported();
    struct seen seen = {0};
    pid_t pid = watch_child(wait_forever);
    threads_await_all_blocked(pid);
    struct watch w = watch(&pid, 1, watch_defaults.ring_bytes);
    watch_until(&w, 1, check_copy, &seen);
    assert_int_equal(w.source->stop(w.self), 0);
    assert_true(copies_by_result(&w, "recorded") == 1);
    assert_true(copies_by_result(&w, "ran") + copies_by_result(&w, "unreadable") + copies_by_result(&w, "lost") == 0);
    assert_int_equal(w.source->drain(w.self, w.batch), 0);
    for (size_t i = 0; i < batch_count(w.batch); i++)
        assert_false(is_copy(batch_get(w.batch, i)));
    end(pid);
    watch_end(&w);
}

#if defined(__x86_64__)
/* ---- a task that sleeps below functions with a uretprobe ---- */

static int bottom_ready;

static void wait_at_the_bottom(void)
{
    wait_forever(bottom_ready);
}

static void wait_below_uretprobes(int ready)
{
    bottom_ready = ready;
    frames_recurse(CALLS, wait_at_the_bottom);
}

static bool check_return_addresses(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;
    const __u64 *words = s->data + s->kernel_frames + s->user_frames;
    size_t in_code = 0;
    (void)context;
    if (!is_copy(header))
        return false;
    for (size_t i = 0; i < s->stack_bytes / 8; i++)
        in_code += (size_t)frames_code_contains(FRAMES_RECURSE, words[i]);
    assert_true(in_code >= CALLS - 1); /* the outermost call returns elsewhere */
    return true;
}

/* The kernel has replaced them in the memory of the task. */
static void test_copied_stack_has_the_return_addresses_that_a_uretprobe_replaced(void **state)
{
    (void)state;
    skip_if_unsupported();
    const int probe = uprobes_attach(frames_code_start(FRAMES_RECURSE), true);
    pid_t pid = watch_child(wait_below_uretprobes);
    threads_await_all_blocked(pid);
    struct watch w = watch(&pid, 1, watch_defaults.ring_bytes);
    watch_until(&w, 1, check_return_addresses, NULL);
    end(pid);
    watch_end(&w);
    close(probe);
}

/* ---- memory served by another process ---- */

/* With its stack pointer there; the kernel accepts any value. */
static _Noreturn void pause_on(void *stack)
{
    __asm__ volatile("mov %0, %%rsp; 1: mov %1, %%eax; syscall; jmp 1b"
                     :
                     : "r"(stack), "i"(SYS_pause)
                     : "rax", "rcx", "r11", "memory");
    __builtin_unreachable();
}

static void say_ready(int ready)
{
    if (write(ready, "", 1) != 1)
        _exit(1);
}

/* Aborts when the memory is touched: the reader would wait for an answer. */
static void *wait_for_touch(void *userfault)
{
    struct uffd_msg touch;
    if (read(*(int *)userfault, &touch, sizeof(touch)) > 0)
        _exit(1);
    return NULL;
}

static void wait_on_userfault(int ready)
{
    struct uffdio_api api = {.api = UFFD_API};
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static int fd;
    pthread_t thread;
    fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_register all = {.range = {(uintptr_t)stack, STACK}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0 || ioctl(fd, UFFDIO_REGISTER, &all) < 0 ||
        pthread_create(&thread, NULL, wait_for_touch, &fd) != 0)
        _exit(1);
    say_ready(ready);
    pause_on(stack + PAGE);
}

static void wait_on_file(int ready)
{
    int fd = memfd_create("stack", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, STACK) < 0)
        _exit(1);
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    say_ready(ready);
    pause_on(stack + PAGE);
}

static void wait_on_unmapped(int ready)
{
    say_ready(ready);
    pause_on((void *)(uintptr_t)PAGE);
}

static bool find_copy(const struct record_header *header, void *context)
{
    (void)context;
    assert_true(!is_copy(header) || header->tid != header->pid); /* that is the thread that waits for the touch */
    return header->kind == RECORD_OFF_CPU;
}

static void test_memory_backed_by_userspace_is_not_read(void **state)
{
    (void)state;
    static void (*const works[])(int) = {wait_on_userfault, wait_on_file, wait_on_unmapped};
    pid_t pids[array_size(works)];
    skip_if_unsupported();
    for (size_t i = 0; i < array_size(works); i++) {
        pids[i] = watch_child(works[i]);
        threads_await_all_blocked(pids[i]);
    }
    struct watch w = watch(pids, array_size(pids), watch_defaults.ring_bytes);
    for (int ms = 0; ms < 60000 && copies_by_result(&w, "unreadable") + copies_by_result(&w, "recorded") +
                                           copies_by_result(&w, "ran") <
                                       array_size(pids) + 1;
         ms++) /* a blocked reader is ended after ITERATOR_HELPER_MAX_S */
        usleep(1000);
    assert_int_equal(w.source->stop(w.self), 0);
    watch_until(&w, array_size(pids), find_copy, NULL); /* their waits, with the kernel part */
    assert_true(copies_by_result(&w, "unreadable") == array_size(pids));
    for (size_t i = 0; i < array_size(pids); i++)
        end(pids[i]);
    watch_end(&w);
}

/* ---- threads that run meanwhile ---- */

/* Counts its naps, in a register and on its stack: in a consistent copy of the stack they are equal. Naps of 2 to 120
 * ms: on any machine some end while they are read, and some do not. */
static void *count_naps(void *number)
{
    const long n = (long)(intptr_t)number;
    const struct timespec time = {
        n ? 0 : 3600, 2000000 + 30000 * n * n}; /* the first sleeps all the time: it is copied in every round */
    __asm__ volatile(
        "xor %%r12, %%r12; sub $128, %%rsp;"
        "1: inc %%r12; push %%r12; mov %1, %%eax; mov %0, %%rdi; xor %%esi, %%esi; syscall; pop %%rax; jmp 1b"
        :
        : "r"(&time), "i"(SYS_nanosleep)
        : "rax", "rcx", "rdi", "rsi", "r11", "r12", "memory");
    return NULL;
}

static void count_in_threads(int ready)
{
    pthread_t thread;
    prctl(PR_SET_TIMERSLACK, 1);
    for (intptr_t i = 0; i < SLEEPERS; i++)
        if (pthread_create(&thread, NULL, count_naps, (void *)i) != 0)
            _exit(1);
    say_ready(ready);
    for (;;)
        pause();
}

/* The main thread has no count. */
static bool check_count(const struct record_header *header, void *context)
{
    const struct stack_record *s = (const struct stack_record *)header;
    size_t *copies = context;
    if (!is_copy(header) || header->tid == header->pid)
        return header->kind == RECORD_OFF_CPU;
    const __u64 *stack = s->data + s->kernel_frames + 1, *registers = stack + s->stack_bytes / 8;
    assert_true(s->flags & STACK_RECORD_REGISTERS);
    assert_int_equal(stack[0], registers[12]);
    (*copies)++;
    return false;
}

static void test_copied_stack_is_consistent(void **state)
{
    (void)state;
    size_t copies = 0;
    skip_if_unsupported();
    pid_t pid = watch_child(count_in_threads);
    struct watch w = watch(&pid, 1, watch_defaults.ring_bytes);
    for (int i = 0; i < ROUNDS; i++) {
        watch_until(&w, SLEEPERS, check_count, &copies);
        assert_int_equal(w.source->shed(w.self, SOURCE_DETAIL_NO_OFF_CPU), 0);
        assert_int_equal(w.source->shed(w.self, SOURCE_DETAIL_FULL), 0); /* scans all tasks again */
    }
    assert_int_equal(w.source->stop(w.self), 0);
    print_message("%zu copies, %.0f of threads that ran meanwhile\n", copies, copies_by_result(&w, "ran"));
    assert_true(copies > 0);
    end(pid);
    w.source->free(w.self); /* shed records are a loss */
    batch_free(w.batch);
}
#endif

/* ---- more stacks than the ring can hold ---- */

static void *wait_deep(void *unused)
{
    volatile char much[DEEP_BYTES];
    for (size_t i = 0; i < sizeof(much); i++)
        much[i] = 1;
    for (;;)
        syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
    return unused;
}

static void wait_in_threads(int ready)
{
    pthread_t thread;
    for (int i = 0; i < SLEEPERS; i++)
        if (pthread_create(&thread, NULL, wait_deep, NULL) != 0)
            _exit(1);
    if (write(ready, "", 1) == 1)
        pause();
}

static void test_slow_reader_does_not_block(void **state)
{
    (void)state;
    struct losses losses = {0};
    skip_if_unsupported();
    pid_t pid = watch_child(wait_in_threads);
    threads_await_all_blocked(pid);
    struct watch w = watch(&pid, 1, SMALL_RING); /* no drain until the end */
    while (copies_by_result(&w, "recorded") * DEEP_BYTES <
           SMALL_RING / 2 - DEEP_BYTES) /* half full: the reader waits */
        usleep(1000);
    assert_true(copies_by_result(&w, "recorded") * DEEP_BYTES < SMALL_RING / 2 + DEEP_BYTES);
    assert_true(copies_by_result(&w, "lost") == 0);
    assert_int_equal(w.source->stop(w.self), 0);
    assert_true(copies_by_result(&w, "lost") > 0);
    w.source->losses(w.self, &losses);
    assert_true(losses.count[LOSS_RING_FULL] > 0);
    end(pid);
    w.source->free(w.self);
    batch_free(w.batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copied_stack_equals_the_task_memory),
#if defined(__x86_64__)
        cmocka_unit_test(test_copied_stack_has_the_return_addresses_that_a_uretprobe_replaced),
        cmocka_unit_test(test_memory_backed_by_userspace_is_not_read),
        cmocka_unit_test(test_copied_stack_is_consistent),
#endif
        cmocka_unit_test(test_slow_reader_does_not_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
