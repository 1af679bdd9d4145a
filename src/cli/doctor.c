/* `sonde doctor`: reports the features that this kernel allows, how each probe is attached, the missing features with
 * their effect, and the ports whose traffic cannot be read. It runs the agent's own attach code (agent_try) and opens
 * the source of `sonde record --off-cpu`, then detaches. The traffic is observed by a running agent, or for two
 * seconds. */
#include "agent/agent.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/standard_output.h"
#include "base/units.h"
#include "cli/coverage_text.h"
#include "cli/observe.h"
#include "cli/subcommands.h"
#include "client/agent_address.h"
#include "client/agent_client.h"
#include "config/config_check.h"
#include "export/coverage_json.h"
#include "sources/attach/privileges.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* One fact about the machine, from the presence or content of a file. */
struct fact {
    const char *name;
    bool good;
    char value[512];
    const char *cost; /* what Sonde cannot do when not good */
};

static struct fact fact_presence(const char *name, const char *path, const char *cost)
{
    struct fact f = {.name = name, .good = access(path, F_OK) == 0, .cost = cost};
    snprintf(f.value, sizeof(f.value), "%s", f.good ? "yes" : "no");
    return f;
}

static struct fact fact_sysctl(const char *name, const char *path, const char *bad, const char *cost)
{
    struct fact f = {.name = name, .cost = cost};
    _cleanup_buf_ struct buf text = {0};
    if (buf_read_file(&text, path, 4096) < 0)
        snprintf(f.value, sizeof(f.value), "unknown");
    else
        snprintf(f.value, sizeof(f.value), "%.*s", (int)strcspn(text.data, "\n"), text.data);
    f.good = strcmp(f.value, bad) != 0;
    return f;
}

static void put_fact_text(const struct fact *f)
{
    printf("  %-26s %s%s%s\n", f->name, f->value, f->good ? "" : "   <- ", f->good ? "" : f->cost);
}

static struct fact fact_cgroups(void)
{
    bool v1 = false, v2 = false;
    _cleanup_buf_ struct buf text = {0};
    if (buf_read_file(&text, "/proc/self/cgroup", 65536) >= 0) /* "0::/" is v2, "4:memory:/" is of v1 */
        for (const char *line = text.data, *next; line && *line; line = next) {
            next = strchr(line, '\n');
            next = next ? next + 1 : line + strlen(line);
            *(strncmp(line, "0::", 3) == 0 ? &v2 : &v1) = true;
        }
    struct fact f = {
        .name = "cgroups", .good = v1 || v2, .cost = "containers, pods, jobs and units cannot be identified"};
    snprintf(f.value, sizeof(f.value), "%s", v1 && v2 ? "v1 and v2 (hybrid)" : v2 ? "v2" : v1 ? "v1" : "none");
    return f;
}

/* Steal time. A hypervisor that does not report it cannot be distinguished from one that takes none. */
static struct fact fact_steal(void)
{
    struct fact f = {.name = "stolen CPU time", .good = true, .value = "none reported since boot"};
    unsigned long long ticks = 0;
    _cleanup_buf_ struct buf text = {0};
    if (buf_read_file(&text, "/proc/stat", 1 << 20) >= 0 &&
        sscanf(text.data, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &ticks) == 1 && ticks)
        snprintf(f.value, sizeof(f.value), "%.1f s since boot, as reported by the hypervisor",
                 (double)ticks / (double)sysconf(_SC_CLK_TCK));
    return f;
}

/* The value of the endpoint `key`; secrets are hidden. "": none is configured. */
static void describe_endpoint(const struct config *config, const char *key, struct config_key_description *ret)
{
    ret->value[0] = '\0';
    for (size_t i = 0; config_describe(config, i, ret) && strcmp(ret->key, key) != 0; i++)
        ret->value[0] = '\0';
}

/* An OTLP receiver, from the environment and the agent's configuration file, if there is one. */
static struct fact fact_receiver(const char *name, const char *key)
{
    struct config config;
    struct config_key_description d;
    char error[CONFIG_ERROR_BYTES];
    struct fact f = {.name = name, .good = true};
    const bool is_of_profiles = strcmp(key, "otlp.profiles_endpoint") == 0;
    snprintf(f.value, sizeof(f.value), "no receiver (%s)", key);
    config_defaults(&config);
    config_environment(&config, error);
    if (error[0] && is_of_profiles)
        snprintf(f.value, sizeof(f.value), "no receiver (%.140s)", error);
    int r = config_load(&config, CONFIG_PATH, error);
    if (r == -EACCES || r == -EPERM) { /* the agent, running as another user, may be able to read it */
        snprintf(f.value, sizeof(f.value), "unknown (" CONFIG_PATH " is not readable by you)");
        return f;
    }
    if (r == 0 && is_of_profiles) /* once, because it logs what it changes */
        r = config_check(&config, error);
    f.good = r == 0 || r == -ENOENT;
    f.cost = "the agent does not start with this file";
    if (!f.good)
        snprintf(f.value, sizeof(f.value), "%.150s", error);
    describe_endpoint(&config, key, &d);
    if (f.good && d.value[0])
        snprintf(f.value, sizeof(f.value), "%.140s%s", d.value, config_is_grpc(&config) ? " over gRPC" : "");
    if (f.good && is_of_profiles && !config_samples(&config))
        snprintf(f.value, sizeof(f.value), "no receiver (profile.enabled and off_cpu.enabled are false)");
    return f;
}

/* "uses 3.1 % of one CPU (at most 10 %) and 54.2 MiB (at most 64 MiB)", and the samples that it lost. */
static void put_cost(const struct agent_state *state, char *out, size_t size)
{
    char used[32], most[32];
    const int length =
        snprintf(out, size, "uses %.1f %% of one CPU (at most %.0f %%) and %s (at most %s)", state->one_cpu_share * 100,
                 state->one_cpu_share_allowed * 100, units_format_size(state->memory_bytes, used, sizeof(used)),
                 units_format_size(state->memory_bytes_allowed, most, sizeof(most)));
    if (state->lost_samples && length > 0 && (size_t)length < size)
        snprintf(out + length, size - (size_t)length, ", has dropped %" PRIu64 " samples because its buffers were full",
                 state->lost_samples);
}

/* NULL: there is no agent. */
static const char *why_no_state(int error)
{
    return error == -EACCES         ? "wants a token (environment variable SONDE_TOKEN)"
           : error == -EKEYREJECTED ? "has a certificate that cannot be verified (environment variable SONDE_CA_FILE)"
           : error == -ECONNRESET   ? "does not speak HTTP; with page.tls_certificate its address begins with https://"
           : error == -ETIMEDOUT    ? "does not answer within ten seconds"
                                    : NULL;
}

/* The agent at this address, and the detail that it has reduced to keep to its CPU limit. */
static struct fact fact_agent(const char *address)
{
    static struct agent_state state; /* keeps the text of `cost` */
    struct fact f = {.name = "running agent", .good = true};
    char cost[128];
    const int r = agent_client_state(address, &state);
    const char *why = why_no_state(r);
    if (r < 0) {
        snprintf(f.value, sizeof(f.value), "%s%.100s%s%s", why ? "" : "none at ", address, why ? " " : "",
                 why ? why : "");
        return f;
    }
    f.good = !state.reduced[0];
    f.cost = state.reduced;
    put_cost(&state, cost, sizeof(cost));
    if (f.good)
        snprintf(f.value, sizeof(f.value), "at %.60s, nothing is reduced, %s%s%s", address, cost,
                 state.outlook[0] ? "; " : "", state.outlook);
    else
        snprintf(f.value, sizeof(f.value), "at %.80s, reduced to keep to budget.one_cpu, %s", address, cost);
    return f;
}

/* One fact for each missing capability, as their effects differ. Returns the number of facts. */
static size_t collect_capabilities(struct fact *facts, size_t max)
{
    struct privilege missing[PRIVILEGES_MAX];
    size_t count = privileges_missing(missing), n = 0;
    if (count == 0 && max > 0)
        facts[n++] = (struct fact){.name = "capabilities", .good = true, .value = "all that are used"};
    for (size_t i = 0; i < count && n < max; i++, n++) {
        facts[n] = (struct fact){.name = "capabilities", .cost = missing[i].cost};
        snprintf(facts[n].value, sizeof(facts[n].value), "missing %s", missing[i].name);
    }
    return n;
}

static size_t collect_facts(const char *address, struct fact *facts, size_t max)
{
    size_t n = collect_capabilities(facts, max);
    const struct fact all[] = {
        fact_presence("BTF of the kernel", "/sys/kernel/btf/vmlinux",
                      "BPF programs cannot be relocated for this kernel: nothing attaches"),
        fact_cgroups(),
        fact_steal(),
        fact_sysctl("kptr_restrict", "/proc/sys/kernel/kptr_restrict", "2", "kernel functions have no names"),
        fact_sysctl("perf_event_paranoid", "/proc/sys/kernel/perf_event_paranoid", "4", "only with CAP_PERFMON"),
        fact_sysctl("bpf_stats_enabled", "/proc/sys/kernel/bpf_stats_enabled", "", ""),
        fact_receiver("profiles are sent to", "otlp.profiles_endpoint"),
        fact_receiver("metrics are sent to", "otlp.metrics_endpoint"),
        fact_receiver("spans are sent to", "otlp.traces_endpoint"),
        fact_receiver("events are sent to", "otlp.logs_endpoint"),
        fact_agent(address),
    };
    for (size_t i = 0; i < array_size(all) && n < max; i++)
        facts[n++] = all[i];
    return n;
}

/* ---- traffic that cannot be read ---- */

#define AGENT_SECONDS 60
#define OBSERVE_NS    2000000000ull

static bool are_requests_seen(const struct attach_report *report)
{
    for (size_t i = 0; i < report->count; i++)
        if (report->entries[i].attached && strcmp(report->entries[i].probe, "requests") == 0)
            return true;
    return false;
}

/* `ret->asked_ns` remains 0 where no agent runs and requests cannot be observed either. */
static void find_traffic(const char *address, const struct attach_report *report, struct coverage *ret)
{
    _cleanup_free_ struct request_route *routes = NULL;
    _cleanup_(requests_freep) struct requests *requests = NULL;
    size_t count = 0;
    *ret = (struct coverage){0};
    if (agent_client_routes(address, AGENT_SECONDS, ret, &routes, &count) == 0 || !are_requests_seen(report))
        return;
    if (requests_new(OBSERVE_MEMORY_BYTES / 8, &requests) < 0 || observe_requests(OBSERVE_NS, requests, ret) < 0)
        *ret = (struct coverage){0};
}

static void print_traffic(const struct coverage *coverage)
{
    _cleanup_buf_ struct buf out = {0};
    char observed[32];
    if (!coverage->asked_ns)
        return;
    printf(
        "\nServers whose traffic cannot be read: it is not HTTP, or TLS of another library than OpenSSL or Go (observed for "
        "%s)\n",
        units_format_duration(coverage->observed_ns, observed, sizeof(observed)));
    coverage_text_put_ports(coverage, "  ", &out);
    printf("%s", out.size ? out.data : "  none\n");
}

static void print_text(const struct utsname *uts, const struct fact *facts, size_t fact_count,
                       const struct attach_report *report)
{
    printf("%s %s, %s, %ld CPUs\n\nMachine\n", uts->sysname, uts->release, uts->machine, sysconf(_SC_NPROCESSORS_ONLN));
    for (size_t i = 0; i < fact_count; i++)
        put_fact_text(&facts[i]);
    printf("\nProbes\n");
    for (size_t i = 0; i < report->count; i++) {
        const struct attach_entry *e = &report->entries[i];
        printf("  %-26s %s\n", e->probe, e->attached ? e->method : "NOT ATTACHED");
        if (e->fallback_reason[0])
            printf("  %-26s %s: %s\n", "", e->attached ? "better methods" : "why", e->fallback_reason);
        if (e->limitation[0])
            printf("  %-26s %s: %s\n", "", e->attached ? "less exact" : "cost", e->limitation);
    }
}

static int print_json(const struct utsname *uts, const struct fact *facts, size_t fact_count,
                      const struct attach_report *report, const struct coverage *coverage)
{
    _cleanup_buf_ struct buf out = {0};
    buf_puts(&out, "{\"kernel\":");
    buf_put_json_string(&out, uts->release);
    buf_puts(&out, ",\"machine\":");
    buf_put_json_string(&out, uts->machine);
    buf_puts(&out, ",\"facts\":[");
    for (size_t i = 0; i < fact_count; i++) {
        buf_printf(&out, "%s{\"name\":\"%s\",\"good\":%s,\"value\":", i ? "," : "", facts[i].name,
                   facts[i].good ? "true" : "false");
        buf_put_json_string(&out, facts[i].value);
        buf_puts(&out, ",\"cost\":");
        buf_put_json_string(&out, facts[i].good ? "" : facts[i].cost);
        buf_putc(&out, '}');
    }
    buf_puts(&out, "],\"probes\":");
    attach_report_put_json(report, &out);
    buf_puts(&out, ",\"coverage\":");
    coverage_json_put(coverage, COVERAGE_ROUTES, &out);
    buf_puts(&out, "}\n");
    return standard_output_write("doctor", &out);
}

/* Takes the settings from the agent's configuration file that decide what agent_try opens. */
static void set_sampling_rules(struct config *config, const struct config *of_file)
{
    memcpy(config->profile_sampling_rules, of_file->profile_sampling_rules, sizeof(config->profile_sampling_rules));
    memcpy(config->kubernetes_cri_socket, of_file->kubernetes_cri_socket, sizeof(config->kubernetes_cri_socket));
}

static int run_doctor(int argc, char **argv)
{
    bool json = false;
    const char *address = NULL;
    const struct option_spec specs[] = {
        {0, "json", OPTION_FLAG, &json, NULL, "as one JSON object", 0, 0},
        {0, "agent", OPTION_TEXT, &address, "ADDRESS",
         "address of the agent, or path of its socket (default: page.socket, else page.listen)", 0, 0},
        {0},
    };
    int r = options_parse(&subcommand_doctor, specs, argc, argv, NULL);
    if (r != 0)
        return r < 0 ? r : 0;
    struct utsname uts = {0};
    struct fact facts[16];
    struct attach_report report = {0};
    struct config config, of_file;
    char error[CONFIG_ERROR_BYTES];
    uname(&uts);
    config_defaults(&of_file);
    (void)config_load(&of_file, CONFIG_PATH, error); /* fact_receiver reports the error; the defaults remain */
    char listen[sizeof(of_file.page_listen) + 8];
    snprintf(listen, sizeof(listen), "%s%s", of_file.page_tls_certificate[0] ? "https://" : "", of_file.page_listen);
    if (!address)
        address = agent_address_of(config_is_given(of_file.page_socket) ? of_file.page_socket : NULL,
                                   config_is_given(of_file.page_listen) ? listen : NULL);
    size_t fact_count = collect_facts(address, facts, array_size(facts));
    config_defaults(&config);
    config_enable_signals(&config, true); /* also try the features that are disabled by default */
    config_put_bool(&config, "off_cpu.wakers", true);
    set_sampling_rules(&config, &of_file);
    r = agent_try(&config, &report);
    if (r < 0 && report.count == 0) /* failed before anything was attached */
        return log_errno(r, "doctor: cannot try to attach anything");
    struct coverage coverage;
    find_traffic(address, &report, &coverage);
    if (json)
        return print_json(&uts, facts, fact_count, &report, &coverage);
    print_text(&uts, facts, fact_count, &report);
    print_traffic(&coverage);
    return 0;
}

const struct subcommand subcommand_doctor = {
    .name = "doctor",
    .synopsis = "[--json] [--agent ADDRESS]",
    .summary = "Check what this kernel allows, which probes attach, and which rights are missing",
    .run = run_doctor,
};
