/* Walks at every single instruction of a program. A child is single-stepped through code of many kinds (lazy binding,
 * recursion, realigned stacks, a signal handler, the vdso, callbacks from libc, longjmp). At each step the walk with
 * our unwind tables must give exactly the return addresses that the calls pushed. These are tracked independently: a
 * call is seen as a push of the next address, a return as the stack pointer passing that slot. The frames below the
 * stepped code come from libgcc's unwinder. */
#include "resolve/unwind/cfi.h"
#include "resolve/unwind/unwind.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#if defined(__x86_64__)

#define STEPS_MAX  600000
#define MAPS_MAX   64
#define SHADOW_MAX 1024
#define COPY_BYTES 65536
#define FRAMES_MAX STACK_MAX_USER_FRAMES
#define KEEP       __attribute__((noinline, noclone))

/* ---- the stepped code ---- */

static volatile int sink;
static jmp_buf jump;

KEEP static int leaf(int n)
{
    return sink += n;
}

KEEP static int recurse(int n)
{
    volatile char room[24];
    room[n % 24] = (char)n;
    return n ? recurse(n - 1) + room[0] : leaf(1);
}

KEEP __attribute__((optimize("omit-frame-pointer"))) static int without_frame_pointer(int n)
{
    volatile long room[4] = {n, n + 1, n + 2, n + 3};
    return leaf((int)room[n & 3]) + recurse(3);
}

KEEP static int realigned(int n)
{
    _Alignas(64) volatile char room[128];
    volatile char *more = __builtin_alloca((size_t)n + 16);
    more[0] = room[n & 127] = (char)n;
    return leaf(more[0]) + without_frame_pointer(n) + room[0];
}

KEEP static int by_value(const void *a, const void *b)
{
    return leaf(0) * 0 + *(const int *)a - *(const int *)b;
}

KEEP static void on_signal(int number)
{
    sink += number + realigned(number & 7);
}

KEEP static void jumps(int n)
{
    if (leaf(n))
        longjmp(jump, 1);
}

KEEP static void workload(void)
{
    char text[64];
    int numbers[] = {5, 3, 9, 1, 7, 2, 8};
    struct timespec now;
    realigned(5);
    recurse(40);
    qsort(numbers, sizeof(numbers) / sizeof(numbers[0]), sizeof(numbers[0]), by_value);
    snprintf(text, sizeof(text), "%f %s %d", 3.25 * sink, "text", numbers[0]);
    sink += (int)strverscmp(text, "3.25") + (int)strcspn(text, "x"); /* bound at their first call */
    clock_gettime(CLOCK_MONOTONIC, &now);
    raise(SIGUSR1);
    if (setjmp(jump) == 0)
        jumps(1);
    free(malloc(200000));
}

/* ---- memory shared with the child ---- */

struct shared {
    void *frames[64]; /* libgcc's backtrace where the child begins */
    int frame_count;
    volatile int done;
};

KEEP static void child_main(struct shared *shared)
{
    int count = backtrace(shared->frames, 64), own = 0; /* ours, and those a sanitizer put around backtrace */
    while (own < count && shared->frames[own] != __builtin_return_address(0))
        own++;
    shared->frame_count = count - own;
    memmove(shared->frames, shared->frames + own, (size_t)shared->frame_count * sizeof(shared->frames[0]));
    __asm__ volatile("int3"); /* stepping begins here */
    workload();
    shared->done = 1;
}

/* ---- the walk ---- */

struct map {
    uint64_t start, end, offset;
    char path[256];
    struct unwind_table *table;
    bool tried;
    unsigned steps; /* walks performed in it */
};

struct maps {
    struct map maps[MAPS_MAX];
    size_t count;
    uint64_t stack_end;
};

static void read_maps(struct maps *m)
{
    FILE *from = fopen("/proc/self/maps", "re");
    assert_non_null(from);
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, from) > 0) {
        struct map map = {0};
        char flags[8];
        int n = sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %255s", &map.start, &map.end, flags,
                       &map.offset, map.path);
        if (n == 5 && strcmp(map.path, "[stack]") == 0)
            m->stack_end = map.end;
        if (n == 5 && flags[2] == 'x' && m->count < MAPS_MAX)
            m->maps[m->count++] = map;
    }
    free(line);
    fclose(from);
}

static void build_table(struct map *map)
{
    struct elf_file *f = NULL;
    map->tried = true;
    if (map->path[0] == '/') {
        int fd = open(map->path, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(elf_open(fd, &f), 0);
    } else {
        void *copy = malloc(map->end - map->start);
        assert_non_null(copy);
        memcpy(copy, (const void *)map->start, map->end - map->start);
        assert_int_equal(elf_open_memory(copy, map->end - map->start, &f), 0);
    }
    assert_int_equal(cfi_build(f, &map->table), 0);
    elf_file_free(f);
}

static int find_rule(void *context, uint64_t address, struct unwind_rule *ret)
{
    struct maps *m = context;
    for (size_t i = 0; i < m->count; i++) {
        struct map *map = &m->maps[i];
        if (address < map->start || address >= map->end)
            continue;
        if (strcmp(map->path, "[vsyscall]") == 0)
            return UNWIND_END_NO_CFI;
        if (!map->tried)
            build_table(map);
        const struct unwind_rule *rule = unwind_table_find(map->table, (uint32_t)(address - map->start + map->offset));
        if (!rule)
            return UNWIND_END_NO_CFI;
        *ret = *rule;
        return 0;
    }
    return UNWIND_END_NO_MAPPING;
}

/* ---- tracking the calls step by step ---- */

struct shadow_frame {
    uint64_t slot; /* address of the return address; the frame is gone when the stack pointer has passed it */
    uint64_t address;
};

struct stepper {
    pid_t pid;
    struct maps maps;
    struct shadow_frame shadow[SHADOW_MAX];
    size_t depth;
    const struct shared *shared;
    uint8_t stack[COPY_BYTES];
    size_t stack_bytes;
    uint64_t stack_start;
    unsigned steps, wrong, unsupported, signals;
};

static uint64_t stack_word(const struct stepper *s, uint64_t address)
{
    uint64_t word = 0;
    if (address >= s->stack_start && address - s->stack_start + 8 <= s->stack_bytes)
        memcpy(&word, s->stack + (address - s->stack_start), 8);
    return word;
}

static void push(struct stepper *s, uint64_t slot, uint64_t address)
{
    assert_true(s->depth < SHADOW_MAX);
    s->shadow[s->depth++] = (struct shadow_frame){slot, address};
}

static void copy_stack(struct stepper *s, uint64_t sp)
{
    size_t size = s->maps.stack_end - sp;
    struct iovec to = {s->stack, size < sizeof(s->stack) ? size : sizeof(s->stack)}, from = {(void *)sp, to.iov_len};
    ssize_t n = process_vm_readv(s->pid, &to, 1, &from, 1, 0);
    s->stack_start = sp;
    s->stack_bytes = n > 0 ? (size_t)n & ~(size_t)7 : 0;
}

static void follow(struct stepper *s, const struct user_regs_struct *before, const struct user_regs_struct *now,
                   bool signalled)
{
    while (s->depth && now->rsp > s->shadow[s->depth - 1].slot)
        s->depth--;
    uint64_t top = stack_word(s, now->rsp);
    if (signalled) {
        s->signals++;
        push(s, before->rsp - 1, before->rip | FRAME_EXACT);
        push(s, now->rsp, top);
    } else if (now->rsp == before->rsp - 8 && top > before->rip && top <= before->rip + 8) {
        push(s, now->rsp, top);
    }
}

static bool is_as_tracked(const struct stepper *s, const uint64_t *frames, size_t count)
{
    size_t below = (size_t)s->shared->frame_count;
    if (count != s->depth + below)
        return false;
    for (size_t i = 0; i < s->depth; i++)
        if (frames[i] != s->shadow[s->depth - 1 - i].address)
            return false;
    for (size_t i = 0; i < below; i++)
        if (frames[s->depth + i] != (uint64_t)s->shared->frames[i])
            return false;
    return true;
}

static void report(const struct stepper *s, const struct user_regs_struct *now, int end, const uint64_t *frames,
                   size_t count)
{
    for (size_t i = 0; i < s->maps.count; i++)
        if (now->rip >= s->maps.maps[i].start && now->rip < s->maps.maps[i].end)
            print_message("wrong at %s+%#" PRIx64 ": end %d, %zu frames, %zu expected, first %#" PRIx64
                          " expected %#" PRIx64 "\n",
                          s->maps.maps[i].path, (uint64_t)(now->rip - s->maps.maps[i].start + s->maps.maps[i].offset),
                          end, count, s->depth + (size_t)s->shared->frame_count, count ? frames[0] : 0,
                          s->depth ? s->shadow[s->depth - 1].address : 0);
}

static void check(struct stepper *s, const struct user_regs_struct *now)
{
    static uint64_t frames[FRAMES_MAX];
    size_t count = 0;
    const uint64_t leaf[UNWIND_LEAF_REGISTERS] = {
        now->rax, now->rdx, now->rcx, now->rbx, now->rsi, now->rdi, now->rbp, now->rsp,
        now->r8,  now->r9,  now->r10, now->r11, now->r12, now->r13, now->r14, now->r15,
    };
    struct unwind_copy copy = {
        .leaf = leaf,
        .registers = {.ip = now->rip, .sp = now->rsp, .fp = now->rbp, .bx = now->rbx},
        .interrupted = true,
        .pieces = {{.address = s->stack_start, .data = s->stack, .bytes = s->stack_bytes}},
    };
    int end = unwind_walk(&copy, find_rule, &s->maps, frames, FRAMES_MAX, &count);
    s->steps++;
    for (size_t i = 0; i < s->maps.count; i++)
        s->maps.maps[i].steps += now->rip >= s->maps.maps[i].start && now->rip < s->maps.maps[i].end;
    if (end == UNWIND_END_ENTRY && is_as_tracked(s, frames, count))
        return;
    if (end == UNWIND_END_UNSUPPORTED && count == 0) {
        s->unsupported++;
        return;
    }
    if (s->wrong++ < 20)
        report(s, now, end, frames, count);
}

static void step_through(struct stepper *s)
{
    struct user_regs_struct before, now;
    assert_int_equal(ptrace(PTRACE_GETREGS, s->pid, NULL, &before), 0);
    int pending = 0, status;
    while (s->steps < STEPS_MAX && !s->shared->done) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, s->pid, NULL, (void *)(long)pending), 0);
        assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
        if (!WIFSTOPPED(status))
            return;
        bool signalled = pending != 0;
        pending = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        if (pending)
            continue; /* about to be delivered: the next step is the handler's first */
        assert_int_equal(ptrace(PTRACE_GETREGS, s->pid, NULL, &now), 0);
        copy_stack(s, now.rsp & ~7ULL);
        follow(s, &before, &now, signalled);
        check(s, &now);
        before = now;
    }
}

static void test_walk_at_every_instruction(void **state)
{
    (void)state;
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    void *warm[4];
    backtrace(warm, 4); /* loads libgcc before mappings are read */
    static struct stepper stepper;
    stepper = (struct stepper){.shared = shared};
    read_maps(&stepper.maps);
    signal(SIGUSR1, on_signal);
    stepper.pid = fork();
    assert_true(stepper.pid >= 0);
    if (stepper.pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0)
            child_main(shared);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(stepper.pid, &status, 0), stepper.pid);
    if (!WIFSTOPPED(status)) {
        print_message("skipped: a child cannot be traced here\n");
        skip();
    }
    assert_int_equal(WSTOPSIG(status), SIGTRAP);
    step_through(&stepper);
    kill(stepper.pid, SIGKILL);
    waitpid(stepper.pid, &status, 0);
    print_message("%u steps, %u signals, %u wrong, %u that rules cannot describe\n", stepper.steps, stepper.signals,
                  stepper.wrong, stepper.unsupported);
    for (size_t i = 0; i < stepper.maps.count; i++)
        if (stepper.maps.maps[i].steps)
            print_message("%u steps in %s\n", stepper.maps.maps[i].steps, stepper.maps.maps[i].path);
    assert_true(shared->done);
    assert_int_equal(stepper.signals, 1);
    assert_int_equal(stepper.wrong, 0);
    assert_true(stepper.unsupported < 64); /* the last instructions of longjmp: the return address is in a register */
    for (size_t i = 0; i < stepper.maps.count; i++)
        unwind_table_free(stepper.maps.maps[i].table);
    munmap(shared, sizeof(*shared));
}

#else

static void test_walk_at_every_instruction(void **state)
{
    (void)state;
    print_message("skipped: steps are followed on x86-64 only\n");
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_walk_at_every_instruction)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
