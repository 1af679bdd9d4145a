/* `sonde up`: runs the agent with its page. `sonde agent`: runs the agent with /metrics and the API only, for fleets.
 */
#include "agent/agent.h"
#include "base/least_rights.h"
#include "base/log.h"
#include "base/ready_fd.h"
#include "base/standard_output.h"
#include "cli/subcommands.h"
#include "cli/up/up_config.h"
#include "cli/up/up_reload.h"
#include "serve/page.h"
#include "sources/attach/privileges.h"

#include "revision.h" /* made by meson.build */

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int start_page(const struct config *c, const struct page_data *data, bool without_ui, struct page **ret)
{
    const struct page_options options = {
        .listen = config_is_given(c->page_listen) ? c->page_listen : NULL,
        .socket = {.path = config_is_given(c->page_socket) ? c->page_socket : NULL,
                   .mode = (mode_t)strtoul(c->page_socket_mode, NULL, 8),
                   .group = c->page_socket_group[0] ? c->page_socket_group : NULL},
        .access = up_config_page_access(c),
        .allowed_hosts = c->page_allowed_hosts[0] ? c->page_allowed_hosts : NULL,
        .without_ui = without_ui,
    };
    return page_start(&options, data, ret);
}

/* What a restart cannot mend: -EINVAL, which ends the process with status 2 (sonde.service does not start it again). */
static int check(struct config *c)
{
    int r = up_config_check(c);
    if (r < 0 || !config_is_given(c->page_listen))
        return r;
    const struct page_access access = up_config_page_access(c);
    return page_check_access(&access) < 0 ? -EINVAL : 0;
}

/* Says where the page is, and who can read it. */
static void announce(const struct config *c, const struct page *page, bool is_up)
{
    const bool needs_token = c->page_token_file[0];
    if (!page_is_local(page) && !needs_token)
        log_warning(
            "page.listen: everybody whose machine reaches %s can read the routes, commands and file names of this node, without a password",
            c->page_listen);
    if (!page_is_local(page) && needs_token && !page_is_encrypted(page))
        log_warning(
            "page.listen: tokens and answers travel in clear text between %s and its clients. Set page.tls_certificate and page.tls_key, or reach it through a tunnel",
            c->page_listen);
    printf("%s ", is_up ? "Sonde is watching. Its page:" : "sonde agent: listening on");
    if (config_is_given(c->page_listen))
        printf("%s://%.*s:%u/  (%sCtrl-C stops it)\n", page_is_encrypted(page) ? "https" : "http",
               (int)(strrchr(c->page_listen, ':') - c->page_listen), c->page_listen, page_port(page),
               needs_token           ? "readers need a token; "
               : page_is_local(page) ? "all users of this machine can read it; "
                                     : "");
    else
        printf("%s  (Ctrl-C stops it)\n", page_socket(page) ? page_socket(page) : "nowhere");
    fflush(stdout);
}

static int run_with_options(const struct subcommand *subcommand, int argc, char **argv)
{
    struct up_options o = {0};
    bool print = false;
    int64_t ready_fd = -1;
    const struct option_spec specs[] = {
        {'c', "config", OPTION_TEXT, &o.config_path, "FILE",
         "configuration in YAML (default " CONFIG_PATH ", if it exists)", 0, 0},
        {0, "set", OPTION_TEXTS, &o.settings, "KEY=VALUE", "override one setting of the file; may be repeated", 0, 0},
        {'l', "listen", OPTION_TEXT, &o.listen, "ADDRESS:PORT",
         "address to listen on, or none (page.listen; default 127.0.0.1:7070)", 0, 0},
        {'F', "rate", OPTION_INTEGER, &o.rate, "HZ",
         "samples per second and CPU, up to 1000 (profile.rate; default 19)", 1, 1000},
        {0, "off-cpu", OPTION_FLAG, &o.off_cpu, NULL,
         "also record off-CPU time: place, reason and duration of waits (off_cpu.enabled)", 0, 0},
        {0, "ready-fd", OPTION_INTEGER, &ready_fd, "FD",
         "write \"ready\" to this descriptor when the agent listens and samples", 0, INT32_MAX},
        {0, "print-config", OPTION_FLAG, &print, NULL,
         "print the effective configuration with the allowed values, check it with its files of tokens and TLS, and exit",
         0, 0},
        {0},
    };
    int r = options_parse(subcommand, specs, argc, argv, NULL);
    if (r != 0)
        return r < 0 ? r : 0;
    struct config config;
    r = up_config_read(&o, &config);
    if (r < 0)
        return r;
    up_config_apply_log_level(&config);
    if (ready_fd >= 0 && ready_fd_check((int)ready_fd) < 0) {
        log_error("--ready-fd: descriptor %lld is not open for writing", (long long)ready_fd);
        return -EINVAL;
    }
    if (print) {
        _cleanup_buf_ struct buf text = {0};
        config_put_text(&config, &text);
        return standard_output_write(subcommand->name, &text) ?: check(&config);
    }
    r = check(&config);
    if (r < 0)
        return r;
    r = least_rights_enter();
    if (r < 0)
        log_errno(r, "rights that Sonde does not need cannot be given up");
    _cleanup_(agent_freep) struct agent *agent = NULL;
    r = agent_new(&config, SONDE_REVISION, &agent);
    if (r == -ENOPKG)
        return r; /* a missing library, already logged */
    if (r < 0) {
        if (r != -EBUSY) /* another agent, already logged */
            log_errno(r, "cannot attach to the kernel");
        if (r != -EBUSY && r != -EXDEV) /* another PID namespace, already logged */
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
        .calls = agent_calls,
        .events = agent_events,
        .coverage = agent_coverage,
        .metrics = agent_metrics,
        .hold = agent_hold,
        .connection_ended = agent_connection_ended,
        .idle_ns = agent_idle_ns,
        .status = agent_status,
    };
    _cleanup_(page_freep) struct page *page = NULL;
    r = start_page(&config, &data, subcommand == &subcommand_agent, &page);
    if (r < 0)
        return -EIO;
    announce(&config, page, subcommand == &subcommand_up);
    struct up_reload reload = {.options = &o, .config = &config, .agent = agent, .page = page};
    up_reload_init(&reload);
    const struct agent_hooks hooks = {.context = &reload, .reload = up_reload, .tick = up_reload_tick};
    return agent_run(agent, (int)ready_fd, &hooks);
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
        "Stops on Ctrl-C; SIGHUP reloads the configuration. Does not modify the programs that it observes.",
    .run = run_up,
};

const struct subcommand subcommand_agent = {
    .name = "agent",
    .synopsis = "[-c FILE] [-l ADDRESS:PORT] [-F HZ] [--off-cpu] [--set KEY=VALUE]...",
    .summary = "Run the agent without the page: /metrics and the API, for fleets",
    .details = "Does what `sonde up` does, without the page. Stops on Ctrl-C or SIGTERM.",
    .run = run_agent,
};
