/* Makes a known number of system calls and faults, each kind in a function of its own, and prints what the kernel
 * accounts for them. `eventful PAGES CALLS`.
 *
 *     faults N          of touch_pages, by getrusage()
 *     naps N            of take_naps that waited for their timer (on a busy machine it may be there first), likewise
 *     switches N        of take_naps, likewise: only this function's
 *     all_switches N    ... with the switches of getrusage() before and after it
 *     mmap_bytes N      of map_memory; nothing of map_in_vain
 *     brk_bytes N       of grow_heap
 *     calls N           getppid() in call_kernel, and firings of workload:counted in fire_probe
 *     heard N           ... firings with a tracer attached */
#include <sonde/probe.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone, used))
#define STAY __asm__ volatile("" ::: "memory")
#define PAGE 4096L

static struct rusage usage(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u;
}

KEEP static void touch_pages(volatile char *memory, long pages)
{
    for (long i = 0; i < pages; i++)
        memory[i * PAGE] = 1;
    STAY;
}

static long switches(const struct rusage *before, const struct rusage *after)
{
    return after->ru_nvcsw + after->ru_nivcsw - before->ru_nvcsw - before->ru_nivcsw;
}

KEEP static void take_naps(long count, struct rusage *ret_before, struct rusage *ret_after)
{
    *ret_before = usage();
    for (long i = 0; i < count; i++)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    *ret_after = usage();
    STAY;
}

KEEP static long map_memory(long calls)
{
    for (long i = 0; i < calls; i++)
        munmap(mmap(NULL, 5 * PAGE - 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 5 * PAGE);
    STAY;
    return calls * 5 * PAGE;
}

KEEP static void map_in_vain(long calls)
{
    for (long i = 0; i < calls; i++)
        if (mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, -1, 0) != MAP_FAILED)
            exit(1);
    STAY;
}

KEEP static long grow_heap(long calls)
{
    for (long i = 0; i < calls; i++) {
        sbrk(3 * PAGE);
        sbrk(-3 * PAGE);
    }
    STAY;
    return calls * 3 * PAGE;
}

KEEP static void call_kernel(long calls)
{
    for (long i = 0; i < calls; i++)
        syscall(SYS_getppid);
    STAY;
}

KEEP static long fire_probe(long calls)
{
    long heard = 0;
    for (long i = 0; i < calls; i++) {
        heard += SONDE_PROBE_ENABLED(workload, counted);
        SONDE_PROBE(workload, counted, i);
    }
    STAY;
    return heard;
}

int main(int argc, char **argv)
{
    const long pages = argc > 1 ? atol(argv[1]) : 1000, calls = argc > 2 ? atol(argv[2]) : 1000;
    volatile char *memory =
        mmap(NULL, (size_t)(pages + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise((void *)memory, (size_t)(pages + 1) * PAGE, MADV_NOHUGEPAGE);
    setvbuf(stdout, NULL, _IONBF, 0);
    sbrk(PAGE - (long)sbrk(0) % PAGE); /* whole pages from here on */
    touch_pages(memory + pages * PAGE, 1);

    struct rusage before = usage();
    touch_pages(memory, pages);
    struct rusage after = usage();
    printf("faults %ld\n", after.ru_minflt - before.ru_minflt);
    struct rusage first, last;
    before = usage();
    take_naps(100, &first, &last);
    after = usage();
    printf("naps %ld\nswitches %ld\nall_switches %ld\n", last.ru_nvcsw - first.ru_nvcsw, switches(&first, &last),
           switches(&before, &after));
    printf("mmap_bytes %ld\n", map_memory(calls));
    map_in_vain(calls);
    printf("brk_bytes %ld\n", grow_heap(calls));
    call_kernel(calls);
    printf("calls %ld\nheard %ld\n", calls, fire_probe(calls));
    return 0;
}
