/* `sonde up`: runs the agent with its page. `sonde agent`: runs the agent with /metrics and the API only, for fleets.
 */
#include "agent/agent.h"
#include "base/address.h"
#include "base/least_rights.h"
#include "base/log.h"
#include "base/ready_fd.h"
#include "cli/privileges.h"
#include "cli/subcommands.h"
#include "resolve/process/pods.h"
#include "serve/page.h"
#include "sources/sampling/sampling_rules.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int load_config(const char *path, const struct option_texts *settings, struct config *c)
{
    char error[CONFIG_ERROR_BYTES];
    config_defaults(c);
    config_environment(c, error);
    if (error[0])
        log_warning("%s; the environment alone does not make the agent send profiles", error);
    int r = config_load(c, path ? path : CONFIG_PATH, error);
    if (r < 0 && (path || r != -ENOENT)) {
        log_error("%s", error);
        return -EINVAL;
    }
    for (size_t i = 0; i < settings->count; i++)
        if (config_set(c, settings->values[i], error) < 0) {
            log_error("%s", error);
            return -EINVAL;
        }
    static const char *const levels[] = {"error", "warning", "info", "debug"};
    for (size_t i = 0; i < array_size(levels); i++)
        if (strcmp(c->log_level, levels[i]) == 0)
            log_set_level((enum log_level)i);
    return 0;
}

static void print_config(const struct config *c)
{
    struct config_key_description d;
    char section[32] = "";
    for (size_t i = 0; config_describe(c, i, &d); i++) {
        size_t length = strcspn(d.key, ".");
        if (strncmp(section, d.key, length) != 0 || section[length]) {
            snprintf(section, sizeof(section), "%.*s", (int)length, d.key);
            printf("%s:\n", section);
        }
        if (d.is_cut) { /* a truncated value must not be read back */
            printf("  # %s: %s    # truncated; %s (%s)\n", d.key + length + 1, d.value, d.help, d.allowed);
            continue;
        }
        const bool is_word = isalnum((unsigned char)d.value[0]) && !strpbrk(d.value, " #");
        const char *quote = is_word ? "" : "\""; /* "[::1]:7070" would be a list; no value holds a quote */
        printf("  %s: %s%s%s    # %s (%s)\n", d.key + length + 1, quote, d.value, quote, d.help, d.allowed);
    }
}

static int start_page(const struct config *c, const struct page_data *data, bool without_ui, struct page **ret)
{
    const struct page_options options = {
        .listen = config_is_given(c->page_listen) ? c->page_listen : NULL,
        .socket = {.path = config_is_given(c->page_socket) ? c->page_socket : NULL,
                   .mode = (mode_t)strtoul(c->page_socket_mode, NULL, 8),
                   .group = c->page_socket_group[0] ? c->page_socket_group : NULL},
        .token_file = c->page_token_file[0] ? c->page_token_file : NULL,
        .allowed_hosts = c->page_allowed_hosts[0] ? c->page_allowed_hosts : NULL,
        .without_ui = without_ui,
    };
    return page_start(&options, data, ret);
}

static bool is_beyond_loopback(const struct config *c)
{
    union address address;
    socklen_t size;
    return address_parse(c->page_listen, &address, &size) == 0 && !address_is_loopback(&address);
}

/* -EINVAL: everybody who reaches the address could read, and the configuration does not say so. */
static int check_access(const struct config *c)
{
    if (!is_beyond_loopback(c) || c->page_token_file[0] || c->page_open)
        return 0;
    log_error(
        "page.listen: everybody whose machine reaches %s could read the routes, commands and file names of this node. Put the line that `sonde token new` prints into a file and name the file by page.token_file; or allow everybody by page.open: true",
        c->page_listen);
    return -EINVAL;
}

/* Says where the page is, and who can read it. */
static void announce(const struct config *c, const struct page *page, bool is_up)
{
    const bool needs_token = c->page_token_file[0];
    if (!page_is_local(page) && !needs_token)
        log_warning(
            "page.listen: everybody whose machine reaches %s can read the routes, commands and file names of this node, without a password",
            c->page_listen);
    printf("%s ", is_up ? "Sonde is watching. Its page:" : "sonde agent: listening on");
    if (config_is_given(c->page_listen))
        printf("http://%.*s:%u/  (%sCtrl-C stops it)\n", (int)(strrchr(c->page_listen, ':') - c->page_listen),
               c->page_listen, page_port(page),
               needs_token           ? "readers need a token; "
               : page_is_local(page) ? "all users of this machine can read it; "
                                     : "");
    else
        printf("%s  (Ctrl-C stops it)\n", page_socket(page) ? page_socket(page) : "nowhere");
    fflush(stdout);
}

/* Disables CPU profiling when all rates are 0, so that no sampling timers run. -EINVAL when sampling rules exist but
 * all have rate 0. */
static int check_sampling_rates(struct config *c)
{
    struct sampling_rules rules;
    if (config_sampling_rules(c, &rules) > 0)
        return 0;
    if (rules.count && config_samples(c)) {
        log_error(
            "all sampling rates are 0: set profile.rate or a rate in profile.sampling_rules, or disable profiles with profile.enabled: false");
        return -EINVAL;
    }
    if (config_bool(c, "profile.enabled"))
        log_warning("profile.rate is 0 and there are no profile.sampling_rules: no CPU profile is recorded");
    config_put_bool(c, "profile.enabled", false);
    c->profile_rate_hz = CONFIG_RATE_HZ; /* unused */
    return 0;
}

static int run_with_options(const struct subcommand *subcommand, int argc, char **argv)
{
    const char *config_path = NULL, *listen = NULL;
    struct option_texts settings = {0};
    bool print = false, off_cpu = false;
    int64_t rate = 0, ready_fd = -1;
    const struct option_spec specs[] = {
        {'c', "config", OPTION_TEXT, &config_path, "FILE",
         "configuration in YAML (default " CONFIG_PATH ", if it exists)", 0, 0},
        {0, "set", OPTION_TEXTS, &settings, "KEY=VALUE", "override one setting of the file; may be repeated", 0, 0},
        {'l', "listen", OPTION_TEXT, &listen, "ADDRESS:PORT",
         "address to listen on, or none (page.listen; default 127.0.0.1:7070)", 0, 0},
        {'F', "rate", OPTION_INTEGER, &rate, "HZ", "samples per second and CPU, up to 1000 (profile.rate; default 19)",
         1, 1000},
        {0, "off-cpu", OPTION_FLAG, &off_cpu, NULL,
         "also record off-CPU time: place, reason and duration of waits (off_cpu.enabled)", 0, 0},
        {0, "ready-fd", OPTION_INTEGER, &ready_fd, "FD",
         "write \"ready\" to this descriptor when the agent listens and samples", 0, INT32_MAX},
        {0, "print-config", OPTION_FLAG, &print, NULL,
         "print the effective configuration with the allowed values, and exit", 0, 0},
        {0},
    };
    int r = options_parse(subcommand, specs, argc, argv, NULL);
    if (r != 0)
        return r < 0 ? r : 0;
    struct config config;
    char error[CONFIG_ERROR_BYTES], pod_labels[CONFIG_POD_LABELS_BYTES];
    r = load_config(config_path, &settings, &config);
    if (r < 0)
        return r;
    if (listen && config_set_value(&config, "--listen", "page.listen", listen, error) < 0) {
        log_error("%s", error);
        return -EINVAL;
    }
    if (rate)
        config.profile_rate_hz = rate;
    if (off_cpu)
        config_put_bool(&config, "off_cpu.enabled", true);
    if (ready_fd >= 0 && ready_fd_check((int)ready_fd) < 0) {
        log_error("--ready-fd: descriptor %lld is not open for writing", (long long)ready_fd);
        return -EINVAL;
    }
    if (print) {
        print_config(&config);
        return 0;
    }
    if (config_pod_labels(&config, pod_labels) < 0) {
        log_error("profile.sampling_rules and kubernetes.pod_labels use more than %d pod labels together",
                  PODS_LABELS_MAX);
        return -EINVAL;
    }
    r = check_access(&config) ?: check_sampling_rates(&config);
    if (r < 0)
        return r;
    r = least_rights_enter();
    if (r < 0)
        log_errno(r, "rights that Sonde does not need cannot be given up");
    _cleanup_(agent_freep) struct agent *agent = NULL;
    r = agent_new(&config, &agent);
    if (r == -ENOPKG)
        return r; /* a missing library, already logged */
    if (r < 0) {
        if (r != -EBUSY)
            log_errno(r, "cannot attach to the kernel");
        privileges_explain();
        return -EPERM;
    }
    struct page_data data = {
        .context = agent,
        .profile = agent_profile,
        .region = agent_region,
        .heatmap = agent_heatmap,
        .hotspots = agent_hotspots,
        .requests = agent_requests,
        .routes = agent_routes,
        .events = agent_events,
        .coverage = agent_coverage,
        .metrics = agent_metrics,
        .hold = agent_hold,
        .idle_ns = agent_idle_ns,
        .status = agent_status,
    };
    _cleanup_(page_freep) struct page *page = NULL;
    r = start_page(&config, &data, subcommand == &subcommand_agent, &page);
    if (r < 0)
        return -EIO;
    announce(&config, page, subcommand == &subcommand_up);
    return agent_run(agent, (int)ready_fd);
}

static int run_up(int argc, char **argv)
{
    return run_with_options(&subcommand_up, argc, argv);
}

static int run_agent(int argc, char **argv)
{
    return run_with_options(&subcommand_agent, argc, argv);
}

const struct subcommand subcommand_up = {
    .name = "up",
    .synopsis = "[-c FILE] [-l ADDRESS:PORT] [-F HZ] [--off-cpu] [--set KEY=VALUE]...",
    .summary = "Run the agent of this node with its page",
    .details =
        "Samples every CPU, observes HTTP requests on sockets, and shows the last minutes on a page (http://127.0.0.1:7070/).\n"
        "Stops on Ctrl-C. Does not modify the programs that it observes.",
    .run = run_up,
};

const struct subcommand subcommand_agent = {
    .name = "agent",
    .synopsis = "[-c FILE] [-l ADDRESS:PORT] [-F HZ] [--off-cpu] [--set KEY=VALUE]...",
    .summary = "Run the agent without the page: /metrics and the API, for fleets",
    .details = "Does what `sonde up` does, without the page. Stops on Ctrl-C or SIGTERM.",
    .run = run_agent,
};
