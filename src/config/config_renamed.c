/* Former names of configuration keys: a file from an earlier release keeps working for one release; see
 * config_private.h. */
#include "config/config_private.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/units.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct renamed_key renamed_keys[] = {
    {"budget.cpu", "budget.one_cpu", "0.2", ", a share of one CPU instead of all CPUs", true},
};

const struct renamed_key *config_find_renamed(const char *name)
{
    for (size_t i = 0; i < array_size(renamed_keys); i++)
        if (strcmp(renamed_keys[i].former, name) == 0)
            return &renamed_keys[i];
    return NULL;
}

bool config_has_renamed(const char *prefix)
{
    for (size_t i = 0; i < array_size(renamed_keys); i++)
        if (strncmp(renamed_keys[i].former, prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

const char *config_convert_renamed(const struct renamed_key *key, const char *where, const char *value,
                                   char converted[CONFIG_CONVERTED_BYTES])
{
    double share;
    if (key->is_share_of_all_cpus) {
        if (units_parse_percent(value, &share) < 0)
            return value;
        snprintf(converted, CONFIG_CONVERTED_BYTES, "%g%%", share * 100 * (double)sysconf(_SC_NPROCESSORS_ONLN));
        value = converted;
    }
    log_warning("%s: %s is now %s%s: write %s: %s; the former name is an error from Sonde %s on", where, key->former,
                key->name, key->change, strchr(key->name, '.') + 1, value, key->until);
    return value;
}
