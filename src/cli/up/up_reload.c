/* What `sonde up` does on SIGHUP; see up_reload.h. */
#include "cli/up/up_reload.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/service.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>

static bool can_open_terminal(void)
{
    _cleanup_close_ int fd = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd >= 0;
}

void up_reload_init(struct up_reload *u)
{
    struct sigaction before;
    const bool is_ignored = sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler == SIG_IGN; /* nohup */
    u->has_terminal = !is_ignored && can_open_terminal();
}

/* The keys whose values differ, separated by commas. */
static void list_changes(const struct config *before, const struct config *after, struct buf *out)
{
    const char *key;
    bool is_same;
    for (size_t i = 0; config_compare(before, after, i, &key, &is_same); i++)
        if (!is_same)
            buf_printf(out, "%s%s", out->size ? ", " : "", key);
}

/* `next`: the settings in force now; `read`: the settings in the file. */
static void report_changes(const struct config *before, const struct config *next, const struct config *read)
{
    _cleanup_buf_ struct buf applied = {0}, others = {0};
    list_changes(before, next, &applied);
    list_changes(next, read, &others);
    if (buf_error(&applied) < 0 || buf_error(&others) < 0)
        return;
    log_info("configuration reloaded; changed: %s", applied.size ? applied.data : "nothing");
    if (others.size)
        log_warning("configuration reloaded; a restart is needed for: %s", others.data);
}

/* `next`: the settings in force after the reload. `ret_read`: the complete new configuration. */
static int read_next(const struct up_reload *u, struct config *ret_read, struct config *next)
{
    int r = up_config_read(u->options, ret_read) ?: up_config_check(ret_read);
    if (r < 0)
        return r;
    *next = *u->config;
    memcpy(next->log_level, ret_read->log_level, sizeof(next->log_level));
    memcpy(next->page_token_file, ret_read->page_token_file, sizeof(next->page_token_file));
    if (next->page_tls_certificate[0] && ret_read->page_tls_certificate[0]) { /* not: from HTTP to HTTPS or back */
        memcpy(next->page_tls_certificate, ret_read->page_tls_certificate, sizeof(next->page_tls_certificate));
        memcpy(next->page_tls_key, ret_read->page_tls_key, sizeof(next->page_tls_key));
    }
    next->page_open = ret_read->page_open;
    next->budget_one_cpu_share = ret_read->budget_one_cpu_share;
    return up_config_check_access(next); /* page.listen stays as it is */
}

static int reload_configuration(struct up_reload *u)
{
    struct config read, next;
    int r = read_next(u, &read, &next);
    if (r < 0)
        return r;
    const struct page_access access = up_config_page_access(&next);
    r = page_reload(u->page, &access);
    if (r < 0)
        return r;
    agent_set_one_cpu_share(u->agent, next.budget_one_cpu_share);
    if (read.budget_memory_bytes != next.budget_memory_bytes &&
        agent_set_memory(u->agent, read.budget_memory_bytes) == 0)
        next.budget_memory_bytes = read.budget_memory_bytes;
    if (strcmp(read.profile_sampling_rules, next.profile_sampling_rules) != 0 &&
        agent_set_sampling_rules(u->agent, &read) == 0)
        memcpy(next.profile_sampling_rules, read.profile_sampling_rules, sizeof(next.profile_sampling_rules));
    up_config_apply_log_level(&next);
    report_changes(u->config, &next, &read);
    *u->config = next;
    agent_set_reported_config(u->agent, &next);
    return 0;
}

void up_reload(void *reload)
{
    struct up_reload *u = reload;
    if (u->has_terminal && !can_open_terminal()) {
        raise(SIGTERM);
        return;
    }
    service_notify_reloading();
    if (reload_configuration(u) < 0)
        log_error("configuration not reloaded: nothing is changed");
    service_notify(SERVICE_READY);
}

void up_reload_tick(void *reload)
{
    const struct up_reload *u = reload;
    page_tick(u->page);
}
