/* The options of `sonde record`, and which of them exclude each other; see record_args.h. */
#include "cli/record/record_args.h"

#include "base/log.h"
#include "base/ready_fd.h"
#include "cli/subcommands.h"
#include "recording/record_event.h"

#include <errno.h>

#define DEFAULT_HZ 99

/* Returns 0, 1 when --help was printed, or -EINVAL after logging. */
static int parse_record_options(int argc, char **argv, struct record_args *args)
{
    const struct option_spec specs[] = {
        {'a', "all", OPTION_FLAG, &args->all, NULL, "the whole node (the default without -p, -c, -C, COMMAND)", 0, 0},
        {'p', "pid", OPTION_TEXTS, &args->filters.pids, "PID",
         "this process and the children it starts; may be repeated", 0, 0},
        {'c', "container", OPTION_TEXTS, &args->filters.containers, "CONTAINER",
         "a container, by its ID or 4 or more leading digits of it; may be repeated", 0, 0},
        {'C', "command", OPTION_TEXTS, &args->filters.commands, "NAME",
         "threads of this name (comm), or of a process of this name; may be repeated", 0, 0},
        {'u', "user", OPTION_TEXTS, &args->filters.users, "USER",
         "threads of this user, by name or number (ps -eo euser); may be repeated", 0, 0},
        {0, "pod", OPTION_TEXTS, &args->filters.pods, "POD",
         "a Kubernetes pod, by its NAMESPACE/NAME or its UID; may be repeated", 0, 0},
        {0, "pod-label", OPTION_TEXTS, &args->filters.pod_labels, "KEY=VALUE",
         "pods with this label, or with all of several separated by commas, including pods that start later; may be repeated",
         0, 0},
        {0, "cri-socket", OPTION_TEXT, &args->cri_socket, "PATH",
         "socket of the container runtime (default: found for containerd, CRI-O and others)", 0, 0},
        {0, "cgroup", OPTION_TEXTS, &args->filters.cgroups, "PATH",
         "a cgroup and its descendants, such as system.slice/nginx.service; may be repeated", 0, 0},
        {'F', "rate", OPTION_INTEGER, &args->rate_hz, "HZ", "samples per second and CPU, up to 20000 (default 99)", 1,
         20000},
        {'d', "duration", OPTION_DURATION, &args->duration_ns, "SECONDS",
         "duration, in seconds or with a unit: 500ms, 5m (default: until Ctrl-C or until COMMAND ends)", 1000000,
         86400000000000},
        {'o', "output", OPTION_TEXT, &args->output, "FILE",
         "FILE.pb.gz, .folded, .html or .json; - is folded text (default profile.pb.gz)", 0, 0},
        {0, "event", OPTION_TEXTS, &args->events, "EVENT",
         "sample this event instead of CPU time; each sample is weighted by its period (see below)", 0, 0},
        {0, "period", OPTION_INTEGER, &args->period, "N", "with --event: take one sample per N events", 1, INT64_MAX},
        {0, "off-cpu", OPTION_FLAG, &args->off_cpu, NULL,
         "off-CPU profile: place, reason and duration of the waits of threads", 0, 0},
        {0, "wall", OPTION_FLAG, &args->wall, NULL, "CPU time and off-CPU time in one profile", 0, 0},
        {0, "gpu", OPTION_FLAG, &args->gpu, NULL,
         "GPU time by the stack that launched it, of programs with libsonde-cuda (docs/gpu.md) and of COMMAND", 0, 0},
        {0, "wakers", OPTION_FLAG, &args->wakers, NULL,
         "with --off-cpu or --wall: add the waker and its stack, inverted, above each wait", 0, 0},
        {0, "min-wait", OPTION_DURATION, &args->min_wait_ns, "TIME",
         "with --off-cpu or --wall: omit waits shorter than this, such as 10us; they are counted", 1, 3600000000000},
        {0, "sample-waits", OPTION_DURATION, &args->sample_wait_ns, "TIME",
         "with --off-cpu or --wall: sample waits shorter than this, such as 1ms, with a probability in proportion to their length; each is weighted as TIME",
         1, 4000000000},
        {0, "links", OPTION_FLAG, &args->links, NULL,
         "attach to programs that trace requests with libsonde, and label samples with their request", 0, 0},
        {0, "lines", OPTION_FLAG, &args->lines, NULL,
         "add the source file and line of native frames from debug information, read after the recording", 0, 0},
        {0, "inlines", OPTION_FLAG, &args->inlines, NULL, "like --lines, and add inlined functions as frames", 0, 0},
        {0, "ready-fd", OPTION_INTEGER, &args->ready_fd, "FD",
         "write \"ready\" to this descriptor when sampling is on and the unwind tables of -p PID are loaded", 0,
         INT32_MAX},
        {0, "record-events", OPTION_TEXT, &args->record_events, "FILE",
         "also write every record from the kernel to FILE, for --replay", 0, 0},
        {0, "replay", OPTION_TEXT, &args->replay, "FILE",
         "read records from FILE instead of the kernel; needs no privileges", 0, 0},
        {0},
    };
    int operands, r = options_parse(&subcommand_record, specs, argc, argv, &operands);
    if (r == 0 && operands > 0) {
        argv[1 + operands] = NULL;
        args->command = argv + 1;
    }
    return r;
}

static int check_option_combinations(const struct record_args *args, bool is_filtered)
{
    if (args->all && is_filtered) {
        log_error(
            "record: -a cannot be combined with -p, -c, -C, -u, --pod, --pod-label, --cgroup or COMMAND (it selects the whole node)");
        return -EINVAL;
    }
    if (args->events.count && (args->off_cpu || args->wall || args->rate_hz)) {
        log_error(
            "record: --event cannot be combined with --off-cpu, --wall or -F (it samples by event count, not by time)");
        return -EINVAL;
    }
    if (args->gpu && (args->events.count || args->off_cpu || args->wall || args->rate_hz)) {
        log_error(
            "record: --gpu cannot be combined with --event, --off-cpu, --wall or -F (it records what runs on a GPU)");
        return -EINVAL;
    }
    if (args->off_cpu && args->rate_hz) {
        log_error("record: --off-cpu cannot be combined with -F (it records every switch)");
        return -EINVAL;
    }
    if (args->off_cpu && args->wall) {
        log_error("record: --off-cpu cannot be combined with --wall (--wall includes it)");
        return -EINVAL;
    }
    if ((args->min_wait_ns || args->sample_wait_ns || args->wakers) && !args->off_cpu && !args->wall) {
        log_error("record: %s --off-cpu or --wall",
                  args->wakers ? "--wakers needs" : "--min-wait and --sample-waits need");
        return -EINVAL;
    }
    if (args->replay && (is_filtered || args->record_events || args->rate_hz || args->duration_ns || args->off_cpu ||
                         args->wall || args->wakers || args->gpu || args->events.count)) {
        log_error(
            "record: --replay can be combined with -o, --lines and --inlines only (the recording determines the rest)");
        return -EINVAL;
    }
    return 0;
}

static int check_ready_fd(const struct record_args *args)
{
    if (args->ready_fd >= 0 && ready_fd_check((int)args->ready_fd) < 0) {
        log_error("record: --ready-fd: descriptor %lld is not open for writing", (long long)args->ready_fd);
        return -EINVAL;
    }
    return 0;
}

/* What the profile is of, once --event is parsed. */
static const struct sample_type *choose_type(const struct record_args *args)
{
    if (args->event)
        return NULL;
    if (args->wall)
        return &sample_type_wall;
    return args->off_cpu ? &sample_type_off_cpu : &sample_type_cpu;
}

int record_args_parse(int argc, char **argv, struct record_args *ret)
{
    struct record_args args = {.output = "profile.pb.gz", .cri_socket = "", .ready_fd = -1};
    int r = parse_record_options(argc, argv, &args);
    if (r != 0)
        return r;
    r = check_option_combinations(&args, record_filters_narrow(&args.filters) || args.command);
    if (r == 0)
        r = check_ready_fd(&args);
    if (r < 0)
        return r;
    args.lines |= args.inlines;
    r = args.gpu ? record_event_new_gpu(args.command, &args.event)
                 : record_event_new(&args.events, args.period, &args.event);
    if (r < 0)
        return r;
    args.type = choose_type(&args);
    if (!args.rate_hz)
        args.rate_hz = DEFAULT_HZ;
    *ret = args;
    return 0;
}
