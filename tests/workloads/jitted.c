/* JIT code, published as runtimes do: `jitted SECONDS map|memfd|dump|none`. Its stack is
 * main;jit_outer;native_middle;jit_inner;inner's loop, where the two jit_ functions are generated at run time (with
 * frame pointers, like V8's and HotSpot's) and the one between is compiled (without). Outdated and invalid entries
 * precede the valid ones.
 *
 *     map     /tmp/perf-PID.map, with names in V8's form
 *     memfd   the same, with the code in a memory file, as in .NET
 *     dump    ./jit-PID.dump, with lines; jit_inner is loaded elsewhere first, and moved
 *     none    nothing is published
 *
 * With WORKLOAD_FIRE=N: at SIGUSR1 jit_inner calls getppid() N times, an event to record, and the program ends. */
#include "workload.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define CODE_BYTES 4096
#define INNER_AT   512
#define MOVED_AT   1024

static const unsigned char outer_code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3}; /* call the argument */
/* Until the argument's first word is set; for each of its second, which it counts down to 0, it calls getppid(), and
 * then sets the first. */
static const unsigned char inner_code[] = {
    0x55, 0x48,        0x89, 0xe5,             /*     push %rbp; mov %rsp,%rbp */
    0x83, 0x7f,        0x04, 0x00,             /* 4:  cmpl $0,4(%rdi) */
    0x75, 0x08,                                /*     jne 18 */
    0x8b, 0x07,        0x85, 0xc0, 0x74, 0xf4, /* 10: mov (%rdi),%eax; test %eax,%eax; je 4 */
    0x5d, 0xc3,                                /*     pop %rbp; ret */
    0xb8, SYS_getppid, 0,    0,    0,          /* 18: mov $SYS_getppid,%eax */
    0x0f, 0x05,                                /*     syscall */
    0xff, 0x4f,        0x04,                   /*     decl 4(%rdi) */
    0x75, 0xf4,                                /*     jne 18 */
    0xc7, 0x07,        0x01, 0,    0,    0,    /*     movl $1,(%rdi) */
    0xeb, 0xe4,                                /*     jmp 10 */
};
static unsigned char *code;
static struct {
    volatile int over, firings;
} state;
static char path[64];
static int dump = -1;

static void on_end(int number)
{
    (void)number;
    state.over = 1;
}

static void on_fire(int number)
{
    workload_on_fire(number);
    state.firings = workload_firings;
}

KEEP static void native_middle(void)
{
    ((void (*)(void *))(uintptr_t)(code + MOVED_AT))(&state);
    STAY;
}

static void *map_code(const char *how)
{
    int fd = strcmp(how, "memfd") == 0 ? memfd_create("doublemapper", MFD_CLOEXEC) : -1;
    if (fd >= 0 && ftruncate(fd, CODE_BYTES) != 0)
        return MAP_FAILED;
    char *at = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return at;
    memcpy(at, outer_code, sizeof(outer_code));
    memcpy(at + MOVED_AT, inner_code, sizeof(inner_code));
    if (fd >= 0)
        return mmap(NULL, CODE_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    return mprotect(at, CODE_BYTES, PROT_READ | PROT_EXEC) == 0 ? at : MAP_FAILED;
}

static void write_map(void)
{
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "we");
    if (!map)
        exit(3);
    const unsigned long at = (unsigned long)(uintptr_t)code;
    fprintf(map, "%lx %x all_of_it_once\n", at - 64, CODE_BYTES);
    fprintf(map, "no line\n%lx ffffffffffffffff everything\n%lx 0 nothing\n\n", at, at);
    fprintf(map, "0x%016lx 0x%016zx jit_outer\n", at, sizeof(outer_code));
    fprintf(map, "%lx 40 JS:~moved_away /srv/app.js:1:1\n", at + INNER_AT);
    fprintf(map, "%lx 8 JS:~overlapped /srv/app.js:2:2\n", at + MOVED_AT + 4);
    fprintf(map, "%lx %zx JS:*jit_inner /srv/app.js:12:15\n", at + MOVED_AT, sizeof(inner_code));
    fprintf(map, "%lx 100 half_a_li", at); /* which comes to its end later, or never */
    fclose(map);
}

static void put(const void *data, size_t size)
{
    if (write(dump, data, size) != (ssize_t)size)
        exit(4);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void put_record(uint32_t kind, const uint64_t *longs, size_t count, const void *rest, size_t rest_bytes)
{
    const uint32_t head[] = {kind, (uint32_t)(16 + count * 8 + rest_bytes)};
    const uint64_t time_ns = now_ns();
    put(head, sizeof(head));
    put(&time_ns, 8);
    put(longs, count * 8);
    put(rest, rest_bytes);
}

static void put_load(size_t at, size_t size, const char *name)
{
    const uint64_t address = (uint64_t)(uintptr_t)(code + at),
                   longs[] = {(uint64_t)getpid() << 32 | (uint64_t)getpid(), address, address, size, at};
    char rest[256];
    const size_t name_bytes = strlen(name) + 1;
    memcpy(rest, name, name_bytes);
    memset(rest + name_bytes, 0xcc, size);
    put_record(0, longs, 5, rest, name_bytes + size);
}

static void write_dump(void)
{
    const uint32_t head[] = {0x4a695444, 1, 40, EM_X86_64, 0, (uint32_t)getpid()};
    const uint64_t began[] = {now_ns(), 0};
    snprintf(path, sizeof(path), "jit-%d.dump", (int)getpid());
    dump = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (dump < 0)
        exit(5);
    put(head, sizeof(head));
    put(began, sizeof(began));
    if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, dump, 0) ==
        MAP_FAILED) /* this mapping makes the file known */
        exit(6);
    const uint64_t outer = (uint64_t)(uintptr_t)code, inner = outer + INNER_AT;
    char lines[64];
    size_t bytes = 0;
    for (unsigned i = 0; i < 2; i++) { /* the loop is at line 22 */
        memcpy(lines + bytes, &(uint64_t){inner + 4 * i}, 8);
        memcpy(lines + bytes + 8, &(uint32_t[]){21 + i, 0}, 8);
        memcpy(lines + bytes + 16, i ? "\xff" : "loop.x", i ? 2 : 7);
        bytes += i ? 18 : 23;
    }
    put_load(0, 64, "before_outer");
    put_load(0, sizeof(outer_code), "jit_outer");
    put_load(MOVED_AT, 64, "before_inner");
    put_record(2, (const uint64_t[]){inner, 2}, 2, lines, bytes);
    put_load(INNER_AT, sizeof(inner_code), "jit_inner");
    put_record(1, (const uint64_t[]){0, inner, inner, outer + MOVED_AT, sizeof(inner_code), INNER_AT}, 6, NULL, 0);
}

int main(int argc, char **argv)
{
    const double seconds = workload_seconds(argc, argv, 1);
    const char *how = argc > 2 ? argv[2] : "map";
    signal(SIGALRM, on_end);
    signal(SIGTERM, on_end);
    signal(SIGUSR1, on_fire);
    code = map_code(how);
    if (code == MAP_FAILED)
        return 2;
    if (strcmp(how, "dump") == 0)
        write_dump();
    else if (strcmp(how, "none") != 0)
        write_map();
    setitimer(ITIMER_REAL,
              &(struct itimerval){{0, 0}, {(time_t)seconds, (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)}},
              NULL);
    printf("code %lx\n", (unsigned long)(uintptr_t)code);
    workload_ready("main;jit_outer;native_middle;jit_inner");
    ((void (*)(void (*)(void)))(uintptr_t)code)(native_middle);
    STAY;
    workload_stay();
    if (path[0])
        unlink(path);
    return workload_end();
}
