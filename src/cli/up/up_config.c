/* The configuration of `sonde up`; see up_config.h. */
#include "cli/up/up_config.h"

#include "base/log.h"
#include "config/config_check.h"

#include <errno.h>
#include <string.h>

static int refuse(const char *error)
{
    log_error("%s", error);
    return -EINVAL;
}

int up_config_read(const struct up_options *o, struct config *c)
{
    char error[CONFIG_ERROR_BYTES];
    config_defaults(c);
    config_environment(c, error);
    if (error[0])
        log_warning("%s; by the environment alone the agent does not send there", error);
    int r = config_load(c, o->config_path ? o->config_path : CONFIG_PATH, error);
    if (r < 0 && (o->config_path || r != -ENOENT))
        return refuse(error);
    for (size_t i = 0; i < o->settings.count; i++)
        if (config_set(c, o->settings.values[i], error) < 0)
            return refuse(error);
    if (o->listen && config_set_value(c, "--listen", "page.listen", o->listen, error) < 0)
        return refuse(error);
    if (o->rate)
        c->profile_rate_hz = o->rate;
    if (o->off_cpu)
        config_put_bool(c, "off_cpu.enabled", true);
    return 0;
}

int up_config_check(struct config *c)
{
    char error[CONFIG_ERROR_BYTES];
    return config_check(c, error) < 0 ? refuse(error) : 0;
}

int up_config_check_access(const struct config *c)
{
    char error[CONFIG_ERROR_BYTES];
    return config_check_access(c, error) < 0 ? refuse(error) : 0;
}

struct page_access up_config_page_access(const struct config *c)
{
    return (struct page_access){.token_file = c->page_token_file[0] ? c->page_token_file : NULL,
                                .tls_certificate = c->page_tls_certificate[0] ? c->page_tls_certificate : NULL,
                                .tls_key = c->page_tls_key[0] ? c->page_tls_key : NULL};
}

void up_config_apply_log_level(const struct config *c)
{
    static const char *const levels[] = {"error", "warning", "info", "debug"};
    for (size_t i = 0; i < array_size(levels); i++)
        if (strcmp(c->log_level, levels[i]) == 0)
            log_set_level((enum log_level)i);
}
