/* The cost of the request programs to a busy server: they are attached and detached many times per second while it
 * serves, and each slice with them is compared with the slices without before and after it. Other load on the machine
 * mostly lasts longer than a slice, or is so short that it affects many slices, and so cancels out. Measured in the
 * same way: nothing at all (the control), the flight recorder as well, and an empty pair of raw system call
 * tracepoints.
 *
 * Measures only the BPF side, with the attach method of kernels 6.16 and later: this program reads the ring buffer, no
 * unwind tables are loaded, and the agent's own CPU time is not included. `request_toggle PID[,PID]... SLICE_MS
 * ROUNDS`: the server's processes. Requests are counted by the TCP segments that this network namespace sends:
 * every request has the same number. Prints for each case by how many percent requests per second and the server's CPU
 * per request change: median, quartiles. */
#include <linux/types.h>

#include "bench.h"
#include "probes/recorder/recorder.h"
#include "probes/request.h"
#include "probes/waits.h"
#include "recorder.skel.h"
#include "request.skel.h"
#include "waits.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <linux/bpf.h>
#include <string.h>
#include <unistd.h>

#define LINKS_MAX   16
#define RECORDS     131072 /* of each of a CPU's two rings: 16 MiB on two CPUs, as by default */
#define ROUNDS_MAX  5000
#define PIDS_MAX    64
#define SETTLE_US   50000
#define RAW_SECTION "raw_tp/"

struct slice {
    double rate, cpu_ns; /* requests per second, the server's CPU per request; requests in any unit */
};

static struct request_bpf *requests;
static struct recorder_bpf *recorder;
static struct waits_bpf *waits;
static unsigned server[PIDS_MAX]; /* its processes */
static size_t server_count;
static int empty_program;

/* ---- the cases: each attaches and returns the number of descriptors used ---- */

static size_t nothing(int *fds)
{
    (void)fds;
    return 0;
}

static size_t empty_pair(int *fds)
{
    fds[0] = bpf_raw_tracepoint_open("sys_enter", empty_program);
    fds[1] = bpf_raw_tracepoint_open("sys_exit", empty_program);
    must(fds[0] >= 0 && fds[1] >= 0, "raw tracepoints");
    return 2;
}

/* Attaches a program: a raw_tp program to the tracepoint of its section, a tp_btf program to the one it was loaded for.
 */
static int attach_tracepoint(const struct bpf_program *program)
{
    const char *section = bpf_program__section_name(program);
    const bool is_raw = strncmp(section, RAW_SECTION, sizeof(RAW_SECTION) - 1) == 0;
    int fd = bpf_raw_tracepoint_open(is_raw ? section + sizeof(RAW_SECTION) - 1 : NULL, bpf_program__fd(program));
    must(fd >= 0, bpf_program__name(program));
    return fd;
}

/* The programs of the first attach method, and those that belong to it. */
static size_t request_programs(int *fds)
{
    const struct bpf_program *programs[] = {
        requests->progs.request_socket_receive, requests->progs.request_socket_send,      requests->progs.request_ready,
        requests->progs.request_retransmission, requests->progs.request_connection_state,
    };
    size_t count = sizeof(programs) / sizeof(programs[0]);
    for (size_t i = 0; i < count; i++)
        fds[i] = attach_tracepoint(programs[i]);
    return count;
}

static void enable_recorder(bool is_enabled)
{
    const struct recorder_cpu cpu = {.scheduler_mask = is_enabled ? RECORDS - 1 : 0,
                                     .object_mask = is_enabled ? RECORDS - 1 : 0};
    for (int i = 0; i < libbpf_num_possible_cpus(); i++)
        must(bpf_map_update_elem(bpf_map__fd(recorder->maps.recorder_cpus), &i, &cpu, BPF_ANY) == 0, "recorder_cpus");
}

/* The flight recorder as well: its own programs, and the records that the programs of requests write to it. */
static size_t request_and_recorder_programs(int *fds)
{
    size_t count = request_programs(fds);
    struct bpf_program *program;
    bpf_object__for_each_program(program, recorder->obj)
    {
        fds[count++] = attach_tracepoint(program);
    }
    enable_recorder(true);
    return count;
}

/* The program that records where threads wait, for no process and for the server's. */
static size_t waits_program(int *fds)
{
    fds[0] = attach_tracepoint(waits->progs.waits_return);
    return 1;
}

static size_t waits_of_others(int *fds)
{
    waits->bss->watched[server[0] % WAITS_LINES][0] = 0;
    return waits_program(fds);
}

static size_t waits_of_server(int *fds)
{
    waits->bss->watched[server[0] % WAITS_LINES][0] = server[0];
    return waits_program(fds);
}

static const struct {
    const char *name;
    size_t (*attach)(int *fds);
} ways[] = {{"nothing", nothing},
            {"requests", request_programs},
            {"requests and recorder", request_and_recorder_programs},
            {"waits, not of it", waits_of_others},
            {"waits of it", waits_of_server},
            {"empty pair", empty_pair}};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static void load_recorder(void)
{
    const int cpus = libbpf_num_possible_cpus();
    must((recorder = recorder_bpf__open()) != NULL, "recorder.bpf.o");
    must(bpf_map__set_max_entries(recorder->maps.recorder_records, (unsigned)cpus * 2 * RECORDS) == 0 &&
             bpf_map__set_max_entries(recorder->maps.recorder_cpus, (unsigned)cpus) == 0,
         "the recorder's maps");
    must(recorder_bpf__load(recorder) == 0, "the recorder's programs (Linux 6.3 and later)");
    must(bpf_map__reuse_fd(requests->maps.recorder_records, bpf_map__fd(recorder->maps.recorder_records)) == 0 &&
             bpf_map__reuse_fd(requests->maps.recorder_cpus, bpf_map__fd(recorder->maps.recorder_cpus)) == 0,
         "the recorder's maps");
    requests->rodata->has_recorder = true;
}

static void load_waits(void)
{
    struct bpf_map *map;
    must((waits = waits_bpf__open()) != NULL, "waits.bpf.o");
    bpf_program__set_autoload(waits->progs.waits_switch, false);
    bpf_object__for_each_map(map, waits->obj) if (bpf_map__max_entries(map) <= 1 &&
                                                  bpf_map__type(map) == BPF_MAP_TYPE_ARRAY &&
                                                  !bpf_map__is_internal(map))
        must(bpf_map__set_max_entries(map, (unsigned)libbpf_num_possible_cpus()) == 0, "set_max_entries");
    waits->rodata->ring_bytes = bpf_map__max_entries(waits->maps.records);
    must(waits_bpf__load(waits) == 0, "the program of waits (Linux 6.16 and later)");
}

static void load(void)
{
    struct bpf_insn empty[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K}, {.code = BPF_JMP | BPF_EXIT}};
    empty_program = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "empty", "GPL", empty, 2, NULL);
    must(empty_program >= 0, "an empty program");
    must((requests = request_bpf__open()) != NULL, "request.bpf.o");
    struct bpf_program *const left_out[] = {
        requests->progs.request_inet_receive,  requests->progs.request_inet6_receive,
        requests->progs.request_inet_send,     requests->progs.request_inet6_send,
        requests->progs.request_inet_sendpage, requests->progs.request_syscall_exit,
    };
    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
        bpf_program__set_autoload(left_out[i], false);
    struct bpf_map *map;
    bpf_object__for_each_map(map, requests->obj) if (bpf_map__max_entries(map) == 0)
        must(bpf_map__set_max_entries(map, 1) == 0, "set_max_entries");
    load_recorder();
    requests->rodata->ring_bytes = bpf_map__max_entries(requests->maps.request_ring);
    requests->rodata->skip_pid = (unsigned)getpid();
    must(request_bpf__load(requests) == 0, "the programs of the first method (Linux 6.3 and later)");
}

/* ---- slices ---- */

/* TCP segments sent. */
static unsigned long long segments(void)
{
    char line[1024];
    unsigned long long found = 0;
    FILE *f = fopen("/proc/self/net/snmp", "re");
    must(f, "/proc/self/net/snmp");
    while (fgets(line, sizeof(line), f))
        if (sscanf(line, "Tcp: %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", &found) == 1 && found)
            break;
    fclose(f);
    return found;
}

/* CPU time of the threads of a process, as the scheduler accounts it. */
static unsigned long long cpu_of(unsigned pid)
{
    char path[128];
    unsigned long long sum = 0, ns;
    snprintf(path, sizeof(path), "/proc/%u/task", pid);
    DIR *threads = opendir(path);
    must(threads, path);
    for (struct dirent *thread; (thread = readdir(threads));) {
        snprintf(path, sizeof(path), "/proc/%u/task/%.20s/schedstat", pid, thread->d_name);
        FILE *f = thread->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (f && fscanf(f, "%llu", &ns) == 1)
            sum += ns;
        if (f)
            fclose(f);
    }
    closedir(threads);
    return sum;
}

static unsigned long long server_cpu(void)
{
    unsigned long long sum = 0;
    for (size_t i = 0; i < server_count; i++)
        sum += cpu_of(server[i]);
    return sum;
}

static struct slice take(unsigned slice_ms)
{
    usleep(SETTLE_US);
    unsigned long long sent = segments(), cpu = server_cpu();
    double start_ns = now_ns();
    usleep(slice_ms * 1000);
    double done = (double)(segments() - sent), used = (double)(server_cpu() - cpu);
    if (done <= 0) {
        fprintf(stderr, "the server served nothing for %u ms\n", slice_ms);
        exit(1);
    }
    return (struct slice){done / (now_ns() - start_ns) * 1e9, used / done};
}

static int ignore(void *context, void *data, size_t size)
{
    (void)context, (void)data, (void)size;
    return 0;
}

/* ---- statistics ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(double *changes, size_t count)
{
    qsort(changes, count, sizeof(*changes), compare);
    printf(" %+.2f %+.2f %+.2f", 100 * changes[count / 2], 100 * changes[count / 4], 100 * changes[count * 3 / 4]);
}

int main(int argc, char **argv)
{
    static double rates[WAYS][ROUNDS_MAX], cpus[WAYS][ROUNDS_MAX];
    unsigned slice_ms = argc == 4 ? (unsigned)atoi(argv[2]) : 0, rounds = argc == 4 ? (unsigned)atoi(argv[3]) : 0;
    if (slice_ms == 0 || rounds == 0 || rounds > ROUNDS_MAX)
        return 2;
    for (char *pid = strtok(argv[1], ","); pid && server_count < PIDS_MAX; pid = strtok(NULL, ","))
        server[server_count++] = (unsigned)atoi(pid);
    must(server_count > 0, "no process");
    load();
    load_waits();
    struct ring_buffer *ring = ring_buffer__new(bpf_map__fd(requests->maps.request_ring), ignore, NULL, NULL);
    must(ring, "ring");
    struct slice before = take(slice_ms);
    for (unsigned round = 0; round < rounds; round++)
        for (size_t way = 0; way < WAYS; way++) {
            int fds[LINKS_MAX];
            size_t count = ways[way].attach(fds);
            struct slice during = take(slice_ms);
            while (count)
                close(fds[--count]);
            enable_recorder(false);
            ring_buffer__consume(ring);
            struct slice after = take(slice_ms);
            rates[way][round] = 2 * during.rate / (before.rate + after.rate) - 1;
            cpus[way][round] = 2 * during.cpu_ns / (before.cpu_ns + after.cpu_ns) - 1;
            before = after;
        }
    for (size_t way = 0; way < WAYS; way++) {
        printf("%s:", ways[way].name);
        print(rates[way], rounds);
        print(cpus[way], rounds);
        printf("\n");
    }
    return 0;
}
