/* Checks values that depend on each other; see config_check.h. */
#include "config/config_check.h"

#include "base/address.h"
#include "base/log.h"
#include "resolve/process/pods.h"
#include "sources/sampling/sampling_rules.h"

#include <errno.h>
#include <stdio.h>

static bool is_beyond_loopback(const struct config *c)
{
    union address address;
    socklen_t size;
    return address_parse(c->page_listen, &address, &size) == 0 && !address_is_loopback(&address);
}

int config_check_access(const struct config *c, char error[CONFIG_ERROR_BYTES])
{
    if (!is_beyond_loopback(c) || c->page_token_file[0] || c->page_open)
        return 0;
    snprintf(
        error, CONFIG_ERROR_BYTES,
        "page.listen: everybody whose machine reaches %s could read the routes, commands and file names of this node. Put the line that `sonde token new` prints into a file and name the file by page.token_file; or allow everybody by page.open: true",
        c->page_listen);
    return -EINVAL;
}

static int check_certificate(const struct config *c, char error[CONFIG_ERROR_BYTES])
{
    if (!c->page_tls_certificate[0] == !c->page_tls_key[0])
        return 0;
    snprintf(error, CONFIG_ERROR_BYTES, "%s is set without %s: TLS needs both",
             c->page_tls_key[0] ? "page.tls_key" : "page.tls_certificate",
             c->page_tls_key[0] ? "page.tls_certificate" : "page.tls_key");
    return -EINVAL;
}

/* Disables CPU profiling when all rates are 0, so that no sampling timers run. -EINVAL when sampling rules exist but
 * all have rate 0. */
static int check_sampling_rates(struct config *c, char error[CONFIG_ERROR_BYTES])
{
    struct sampling_rules rules;
    if (config_sampling_rules(c, &rules) > 0)
        return 0;
    if (rules.count && config_samples(c)) {
        snprintf(
            error, CONFIG_ERROR_BYTES,
            "all sampling rates are 0: set profile.rate or a rate in profile.sampling_rules, or disable profiles with profile.enabled: false");
        return -EINVAL;
    }
    if (config_bool(c, "profile.enabled"))
        log_warning("profile.rate is 0 and there are no profile.sampling_rules: no CPU profile is recorded");
    config_put_bool(c, "profile.enabled", false);
    c->profile_rate_hz = CONFIG_RATE_HZ; /* unused */
    return 0;
}

static int check_pod_labels(const struct config *c, char error[CONFIG_ERROR_BYTES])
{
    char pod_labels[CONFIG_POD_LABELS_BYTES];
    if (config_pod_labels(c, pod_labels) == 0)
        return 0;
    snprintf(error, CONFIG_ERROR_BYTES,
             "profile.sampling_rules and kubernetes.pod_labels use more than %d pod labels together", PODS_LABELS_MAX);
    return -EINVAL;
}

int config_check(struct config *c, char error[CONFIG_ERROR_BYTES])
{
    return check_pod_labels(c, error)
               ?: config_check_access(c, error) ?: check_certificate(c, error) ?: check_sampling_rates(c, error);
}
