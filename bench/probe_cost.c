/* The cost of a probe in nanoseconds of one thread, compared with probes as libstapsdt and sys/sdt.h create them: a
 * function with a nop and a return, called through a pointer; and for the check whether a tracer is attached, that of
 * sys/sdt.h: a semaphore at an address known to the linker. The same empty BPF program is attached to both, through
 * the same perf events, in the same run. Rounds alternate; the median and the best of each row are printed, including
 * the loop's own time, which has a row of its own: `probe_cost [ROUNDS]`. Unattached probes are timed in slices of some
 * 50 us; a round keeps the fastest slice: competing processes and a busy sibling hyperthread are not the probe's
 * cost. Attaching needs root. */
#include "bench.h"

#include <sonde/probe.h>

#include <elf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS_MAX = 99, IDLE_CALLS = 20000000, IDLE_SLICES = 200, ATTACHED_CALLS = 200000 };

/* The peer. Its site is in our own file, as libstapsdt's is in the file that it writes. */
void single_nop(uint64_t, uint64_t);
__asm__(
    ".text\n.balign 64\n.globl single_nop\n.type single_nop, @function\nsingle_nop: nop\nret\n.size single_nop, . - single_nop\n");
static void (*volatile single_nop_pointer)(uint64_t, uint64_t) = single_nop;

#if defined(__x86_64__)
/* The floor: the kernel's cheapest site, a bare nop of five bytes in the executable. The difference to our probe is our
 * own cost; the rest is the kernel's path from a site to a program. */
void five_byte_nop(uint64_t, uint64_t);
__asm__(".text\n.balign 64\n.globl five_byte_nop\n.type five_byte_nop, @function\n"
        "five_byte_nop: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00\nret\n.size five_byte_nop, . - five_byte_nop\n");
static void (*volatile five_byte_nop_pointer)(uint64_t, uint64_t) = five_byte_nop;
#else
static void (*volatile five_byte_nop_pointer)(uint64_t, uint64_t); /* this architecture has no such site */
#endif

static struct sonde_probe *probe, *twelve;

/* A function that times `what`; the compiler can assume nothing from one iteration to the next. Unrolled 16 times, so
 * that the loop itself costs almost nothing. */
#define TIMED(name, what)                                                                                              \
    static double name(int calls)                                                                                      \
    {                                                                                                                  \
        const struct sonde_probe *held __attribute__((unused)) = probe;                                                \
        double began_ns = now_ns();                                                                                    \
        _Pragma("GCC unroll 16") for (int i = 0; i < calls; i++)                                                       \
        {                                                                                                              \
            what;                                                                                                      \
            __asm__ volatile("" ::: "memory");                                                                         \
        }                                                                                                              \
        return (now_ns() - began_ns) / calls;                                                                          \
    }

/* The cost of a check: three loads with the handle in memory, as in a global variable, two with the handle in a
 * register, one where the semaphore's address is a constant. */
TIMED(nothing, (void)0)
TIMED(enabled, if (sonde_probe_enabled(probe)) __asm__ volatile("nop"))
TIMED(enabled_static, if (SONDE_PROBE_ENABLED(bench, known_when_compiled)) __asm__ volatile("nop"))
TIMED(enabled_held, if (sonde_probe_enabled(held)) __asm__ volatile("nop"))
TIMED(fire, sonde_probe_fire(probe, i, 7u))
TIMED(fire_twelve, sonde_probe_fire(twelve, i, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11))
TIMED(fire_single_nop, single_nop_pointer((uint64_t)i, 7))
TIMED(fire_five_byte_nop, five_byte_nop_pointer((uint64_t)i, 7))
TIMED(system_call, syscall(SYS_getppid))

/* --- attaching, to a place in a mapped file --- */

struct place {
    char path[64];
    uint64_t offset, semaphore_offset;
};

static int attach(const struct place *place)
{
    struct bpf_insn program[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K}, {.code = BPF_JMP | BPF_EXIT}};
    union bpf_attr load = {.prog_type = BPF_PROG_TYPE_KPROBE,
                           .insns = (uint64_t)(uintptr_t)program,
                           .insn_cnt = 2,
                           .license = (uint64_t)(uintptr_t) "GPL"};
    int type = -1;
    FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
    must(file && fscanf(file, "%d", &type) == 1, "uprobe/type");
    fclose(file);
    struct perf_event_attr event = {.size = sizeof(event),
                                    .type = (unsigned)type,
                                    .uprobe_path = (uint64_t)(uintptr_t)place->path,
                                    .probe_offset = place->offset,
                                    .config = place->semaphore_offset << 32};
    int program_fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof(load));
    must(program_fd >= 0, "BPF_PROG_LOAD");
    int fd = (int)syscall(SYS_perf_event_open, &event, getpid(), -1, -1, PERF_FLAG_FD_CLOEXEC);
    must(fd >= 0, "perf_event_open");
    must(ioctl(fd, PERF_EVENT_IOC_SET_BPF, program_fd) == 0, "PERF_EVENT_IOC_SET_BPF");
    must(ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) == 0, "PERF_EVENT_IOC_ENABLE");
    close(program_fd);
    return fd;
}

/* The object of our probes is our only memfd; its sections give the places of the probes, in the order of their
 * addition. */
static struct place place_of_probe(unsigned index)
{
    struct place place = {0};
    for (int fd = 3; fd < 64 && !place.offset; fd++) {
        char link[64] = "";
        snprintf(place.path, sizeof(place.path), "/proc/self/fd/%d", fd);
        if (readlink(place.path, link, sizeof(link) - 1) < 0 || strncmp(link, "/memfd:bench", 12) != 0)
            continue;
        Elf64_Ehdr head;
        Elf64_Shdr sections[16];
        must(pread(fd, &head, sizeof(head), 0) == sizeof(head) && head.e_shnum <= 16, "headers");
        must(pread(fd, sections, head.e_shnum * sizeof(*sections), (off_t)head.e_shoff) > 0, "sections");
        for (int i = 0; i < head.e_shnum; i++) {
            if (sections[i].sh_flags & SHF_EXECINSTR)
                place.offset = sections[i].sh_offset + 16 * index;
            if (sections[i].sh_flags & SHF_WRITE)
                place.semaphore_offset = sections[i].sh_offset + 2 * index;
        }
    }
    must(place.offset != 0, "the object of the probes");
    return place;
}

/* The place of a function of the executable. */
static struct place place_of(void (*function)(uint64_t, uint64_t))
{
    struct place place = {.path = "/proc/self/exe"};
    uint64_t begin, end, offset, address = (uint64_t)(uintptr_t)function;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    must(maps != NULL, "/proc/self/maps");
    while (fgets(line, sizeof(line), maps))
        if (sscanf(line, "%lx-%lx %*s %lx", &begin, &end, &offset) == 3 && address >= begin && address < end)
            place.offset = address - begin + offset;
    fclose(maps);
    return place;
}

/* --- rows --- */

enum row {
    NOTHING,
    ENABLED,
    ENABLED_HELD,
    ENABLED_STATIC,
    FIRE,
    SINGLE_NOP,
    SYSTEM_CALL,
    FIRE_ATTACHED,
    TWELVE_ATTACHED,
    SINGLE_NOP_ATTACHED,
    FIVE_BYTE_NOP_ATTACHED,
    ROWS
};

struct measured {
    const char *name;
    double (*loop)(int calls);
    int calls;
    const struct place *place; /* where the program is attached during the measurement; NULL: not attached */
    double ns[ROUNDS_MAX];
};

static void measure(struct measured *row, int round)
{
    int fd = row->place ? attach(row->place) : -1;
    int slices = row->place ? 1 : IDLE_SLICES;
    row->loop(row->calls / 100); /* the kernel replaces an optimizable nop at its first hit */
    for (int i = 0; i < slices; i++) {
        double ns = row->loop(row->calls / slices);
        row->ns[round] = i == 0 || ns < row->ns[round] ? ns : row->ns[round];
    }
    if (fd >= 0)
        close(fd);
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), compare);
    return values[count / 2];
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 9;
    int attached_rows = five_byte_nop_pointer ? ROWS : FIVE_BYTE_NOP_ATTACHED;
    int rows = geteuid() == 0 ? attached_rows : FIRE_ATTACHED;
    struct sonde_provider *provider;
    must(rounds > 0 && rounds <= ROUNDS_MAX, "rounds");
    must(sonde_provider_new("bench", &provider) == 0 &&
             sonde_probe_add(provider, "two", "i32 i, u32 seven", &probe) == 0 &&
             sonde_probe_add(provider, "twelve",
                             "i32 a, i32 b, i32 c, i32 d, i32 e, i32 f, i32 g, i32 h, i32 i, i32 j, i32 k, i32 l",
                             &twelve) == 0 &&
             sonde_provider_load(provider) == 0,
         "provider");
    const struct place two_place = place_of_probe(0), twelve_place = place_of_probe(1),
                       nop_place = place_of(single_nop), five_place = place_of(five_byte_nop_pointer);
    static struct measured all[ROWS];
    all[NOTHING] = (struct measured){"the loop, with nothing in it", nothing, IDLE_CALLS, NULL, {0}};
    all[ENABLED] = (struct measured){"enabled, not attached", enabled, IDLE_CALLS, NULL, {0}};
    all[ENABLED_HELD] = (struct measured){"enabled, handle in a register", enabled_held, IDLE_CALLS, NULL, {0}};
    all[ENABLED_STATIC] = (struct measured){"enabled, static (sys/sdt.h's)", enabled_static, IDLE_CALLS, NULL, {0}};
    all[FIRE] = (struct measured){"fire, not attached", fire, IDLE_CALLS, NULL, {0}};
    all[SINGLE_NOP] = (struct measured){"single nop, not attached", fire_single_nop, IDLE_CALLS, NULL, {0}};
    all[SYSTEM_CALL] = (struct measured){"getppid, for comparison", system_call, ATTACHED_CALLS, NULL, {0}};
    all[FIRE_ATTACHED] = (struct measured){"fire of 2 arguments, attached", fire, ATTACHED_CALLS, &two_place, {0}};
    all[TWELVE_ATTACHED] =
        (struct measured){"fire of 12 arguments, attached", fire_twelve, ATTACHED_CALLS, &twelve_place, {0}};
    all[SINGLE_NOP_ATTACHED] =
        (struct measured){"single nop, attached", fire_single_nop, ATTACHED_CALLS, &nop_place, {0}};
    all[FIVE_BYTE_NOP_ATTACHED] =
        (struct measured){"bare nop of 5 bytes, attached", fire_five_byte_nop, ATTACHED_CALLS, &five_place, {0}};
    for (int i = 0; i < rounds; i++)
        for (int j = 0; j < rows; j++)
            measure(&all[i % 2 ? rows - 1 - j : j], i);
    double ns[ROWS] = {0};
    for (int i = 0; i < rows; i++) {
        ns[i] = median(all[i].ns, rounds);
        printf("%-32s %8.2f ns, the best %8.2f\n", all[i].name, ns[i], all[i].ns[0]); /* median() has sorted them */
    }
    if (rows > SINGLE_NOP_ATTACHED)
        printf("%-32s %8.2f of the single nop's\n", "attached, of 2 arguments",
               ns[FIRE_ATTACHED] / ns[SINGLE_NOP_ATTACHED]);
    sonde_provider_free(provider);
    return 0;
}
