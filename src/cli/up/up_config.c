/* The configuration of `sonde up`; see up_config.h. */
#include "cli/up/up_config.h"

#include "base/address.h"
#include "base/log.h"
#include "resolve/process/pods.h"
#include "sources/sampling/sampling_rules.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int up_config_read(const struct up_options *o, struct config *c)
{
    char error[CONFIG_ERROR_BYTES];
    config_defaults(c);
    config_environment(c, error);
    if (error[0])
        log_warning("%s; by the environment alone the agent does not send there", error);
    int r = config_load(c, o->config_path ? o->config_path : CONFIG_PATH, error);
    if (r < 0 && (o->config_path || r != -ENOENT)) {
        log_error("%s", error);
        return -EINVAL;
    }
    for (size_t i = 0; i < o->settings.count; i++)
        if (config_set(c, o->settings.values[i], error) < 0) {
            log_error("%s", error);
            return -EINVAL;
        }
    if (o->listen && config_set_value(c, "--listen", "page.listen", o->listen, error) < 0) {
        log_error("%s", error);
        return -EINVAL;
    }
    if (o->rate)
        c->profile_rate_hz = o->rate;
    if (o->off_cpu)
        config_put_bool(c, "off_cpu.enabled", true);
    return 0;
}

static bool is_beyond_loopback(const struct config *c)
{
    union address address;
    socklen_t size;
    return address_parse(c->page_listen, &address, &size) == 0 && !address_is_loopback(&address);
}

/* -EINVAL: everybody who reaches the address could read, and the configuration does not say so. */
int up_config_check_access(const struct config *c)
{
    if (!is_beyond_loopback(c) || c->page_token_file[0] || c->page_open)
        return 0;
    log_error(
        "page.listen: everybody whose machine reaches %s could read the routes, commands and file names of this node. Put the line that `sonde token new` prints into a file and name the file by page.token_file; or allow everybody by page.open: true",
        c->page_listen);
    return -EINVAL;
}

static int check_certificate(const struct config *c)
{
    if (!c->page_tls_certificate[0] == !c->page_tls_key[0])
        return 0;
    log_error("%s is set without %s: TLS needs both", c->page_tls_key[0] ? "page.tls_key" : "page.tls_certificate",
              c->page_tls_key[0] ? "page.tls_certificate" : "page.tls_key");
    return -EINVAL;
}

struct page_access up_config_page_access(const struct config *c)
{
    return (struct page_access){.token_file = c->page_token_file[0] ? c->page_token_file : NULL,
                                .tls_certificate = c->page_tls_certificate[0] ? c->page_tls_certificate : NULL,
                                .tls_key = c->page_tls_key[0] ? c->page_tls_key : NULL};
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

static int check_pod_labels(const struct config *c)
{
    char pod_labels[CONFIG_POD_LABELS_BYTES];
    if (config_pod_labels(c, pod_labels) == 0)
        return 0;
    log_error("profile.sampling_rules and kubernetes.pod_labels use more than %d pod labels together", PODS_LABELS_MAX);
    return -EINVAL;
}

int up_config_check(struct config *c)
{
    return check_pod_labels(c) ?: up_config_check_access(c) ?: check_certificate(c) ?: check_sampling_rates(c);
}

void up_config_apply_log_level(const struct config *c)
{
    static const char *const levels[] = {"error", "warning", "info", "debug"};
    for (size_t i = 0; i < array_size(levels); i++)
        if (strcmp(c->log_level, levels[i]) == 0)
            log_set_level((enum log_level)i);
}
