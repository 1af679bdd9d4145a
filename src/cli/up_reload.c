/* What `sonde up` does on SIGHUP; see up_reload.h. */
#include "cli/up_reload.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/service.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>

static const char *const applied_keys[] = {"log.level", "budget.one_cpu", "page.token_file", "page.open"};

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

static bool is_applied(const char *key)
{
    for (size_t i = 0; i < array_size(applied_keys); i++)
        if (strcmp(applied_keys[i], key) == 0)
            return true;
    return false;
}

/* Logs the settings that changed, in two lists. */
static void report_changes(const struct config *before, const struct config *after)
{
    _cleanup_buf_ struct buf applied = {0}, others = {0};
    const char *key;
    bool is_same;
    for (size_t i = 0; config_compare(before, after, i, &key, &is_same); i++) {
        struct buf *list = is_applied(key) ? &applied : &others;
        if (!is_same)
            buf_printf(list, "%s%s", list->size ? ", " : "", key);
    }
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
    r = page_reload(u->page, next.page_token_file[0] ? next.page_token_file : NULL);
    if (r < 0)
        return r;
    agent_set_one_cpu_share(u->agent, next.budget_one_cpu_share);
    up_config_apply_log_level(&next);
    report_changes(u->config, &read);
    *u->config = next;
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
