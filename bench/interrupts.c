/* The cost of the programs of signal "interrupts" to a softirq, and of an empty pair of programs at the same
 * tracepoints. Datagrams are sent over loopback: each is received by one softirq on the sender's CPU, before its send
 * returns. `interrupts ROUNDS` prints what a datagram takes with nothing attached, in nanoseconds, and how much longer
 * it takes with each case attached. In a round the cases take turns, and each has the least of many short slices, as
 * what else runs on the machine only adds; of the rounds the median is printed. Prints also how many softirqs a
 * datagram has, by the programs' own count. */
#include <linux/types.h>

#include "bench.h"
#include "probes/common/run_timer.h"
#include "probes/interrupts.h"

#include "interrupts.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROUNDS_MAX 1000
#define SLICES     200 /* of a round */
#define DATAGRAMS  50  /* of a slice */
#define NET_RX     3

static struct interrupts_bpf *interrupts;
static int empty_program, sender;
static struct sockaddr_in receiver;

/* ---- the cases: each attaches and returns the number of descriptors used ---- */

static size_t nothing(int *fds)
{
    (void)fds;
    return 0;
}

static size_t softirqs(int *fds)
{
    fds[0] = bpf_raw_tracepoint_open(NULL, bpf_program__fd(interrupts->progs.interrupts_softirq_exit));
    fds[1] = bpf_raw_tracepoint_open(NULL, bpf_program__fd(interrupts->progs.interrupts_softirq_entry));
    must(fds[0] >= 0 && fds[1] >= 0, "tracepoints");
    return 2;
}

static size_t empty_pair(int *fds)
{
    fds[0] = bpf_raw_tracepoint_open("softirq_exit", empty_program);
    fds[1] = bpf_raw_tracepoint_open("softirq_entry", empty_program);
    must(fds[0] >= 0 && fds[1] >= 0, "raw tracepoints");
    return 2;
}

static const struct {
    const char *name;
    size_t (*attach)(int *fds);
} ways[] = {{"nothing", nothing}, {"interrupts", softirqs}, {"empty pair", empty_pair}};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static void load(void)
{
    struct bpf_insn empty[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K}, {.code = BPF_JMP | BPF_EXIT}};
    empty_program = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "empty", "GPL", empty, 2, NULL);
    must(empty_program >= 0, "an empty program");
    must((interrupts = interrupts_bpf__open()) != NULL, "interrupts.bpf.o");
    must(bpf_map__set_max_entries(interrupts->maps.cpus, (unsigned)libbpf_num_possible_cpus()) == 0, "cpus");
    must(interrupts_bpf__load(interrupts) == 0, "the programs");
    interrupts->bss->enabled = 1;
}

static void open_sockets(void)
{
    socklen_t size = sizeof(receiver);
    cpu_set_t set;
    int fd = socket(AF_INET, SOCK_DGRAM, 0), least = 1;
    receiver = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    must(bind(fd, (struct sockaddr *)&receiver, size) == 0, "bind");
    must(getsockname(fd, (struct sockaddr *)&receiver, &size) == 0, "getsockname");
    must(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof(least)) == 0, "setsockopt"); /* the rest is dropped */
    sender = socket(AF_INET, SOCK_DGRAM, 0);
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    must(sched_setaffinity(0, sizeof(set), &set) == 0, "sched_setaffinity");
}

static double slice_ns(void)
{
    double start_ns = now_ns();
    for (int i = 0; i < DATAGRAMS; i++)
        must(sendto(sender, "x", 1, 0, (struct sockaddr *)&receiver, sizeof(receiver)) == 1, "sendto");
    return (now_ns() - start_ns) / DATAGRAMS;
}

static double counted(void)
{
    double sum = 0;
    for (int i = 0; i < libbpf_num_possible_cpus(); i++) {
        struct interrupts_cpu cpu;
        must(bpf_map_lookup_elem(bpf_map__fd(interrupts->maps.cpus), &i, &cpu) == 0, "cpus");
        for (int k = 0; k < INTERRUPTS_BUCKETS; k++)
            sum += (double)cpu.softirqs[NET_RX].counts[k];
    }
    return sum;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double least_ns(void)
{
    double least = slice_ns();
    for (int i = 1; i < SLICES; i++) {
        double ns = slice_ns();
        least = ns < least ? ns : least;
    }
    return least;
}

int main(int argc, char **argv)
{
    static double ns[WAYS][ROUNDS_MAX];
    int rounds = argc == 2 ? atoi(argv[1]) : 0;
    if (rounds < 1 || rounds > ROUNDS_MAX)
        return 2;
    load();
    open_sockets();
    for (int i = 0; i < rounds; i++)
        for (size_t way = 0; way < WAYS; way++) {
            int fds[2];
            size_t count = ways[way].attach(fds);
            ns[way][i] = least_ns();
            ns[way][i] -= way > 0 ? ns[0][i] : 0;
            while (count)
                close(fds[--count]);
        }
    for (size_t way = 0; way < WAYS; way++) {
        qsort(ns[way], (size_t)rounds, sizeof(double), compare);
        printf("%s: %.1f\n", ways[way].name, ns[way][rounds / 2]);
    }
    printf("softirqs: %.2f\n", counted() / ((double)DATAGRAMS * SLICES * rounds));
    return 0;
}
