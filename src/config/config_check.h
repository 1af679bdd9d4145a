/* What a configuration must fulfil as a whole: values that depend on each other are set one by one. Main thread. */
#pragma once

#include "config/config.h"

/* Checks that clients beyond loopback need a token or are allowed without one, that TLS has both of its files, that
 * there is room for all pod labels, and that something is sampled. Disables CPU profiles, with a warning, if all rates
 * are 0 and there are no sampling rules. -EINVAL, with the message in `error`. */
int config_check(struct config *c, char error[CONFIG_ERROR_BYTES]);

/* The first of these checks alone. */
int config_check_access(const struct config *c, char error[CONFIG_ERROR_BYTES]);
