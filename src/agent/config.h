/* Configuration: one table of keys for the YAML file, for `--set KEY=VALUE`, for the documentation. A file is taken whole or
 * refused with the file, the line, the key and what is allowed there. Plain data once loaded; passed on as `const struct config`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config {
    bool profile_enabled;
    int64_t profile_rate_hz;
    bool requests_enabled;
    double budget_cpu_share;        /* of the whole machine */
    uint64_t budget_memory_bytes;   /* resident + BPF */
    char page_listen[128];
    char page_allowed_hosts[512];
    char log_level[16];
};

#define CONFIG_ERROR_BYTES 512

void config_defaults(struct config *c);

/* Changes `c` only when the whole file is good. On failure -errno, and the reason for people in `error`. */
int config_load(struct config *c, const char *path, char error[CONFIG_ERROR_BYTES]);

/* `where` is what the message begins with: "--rate", "sonde.yaml:3". On failure `c` may hold a part of the value. */
int config_set_value(struct config *c, const char *where, const char *name, const char *value, char error[CONFIG_ERROR_BYTES]);
/* "budget.cpu=2%". */
int config_set(struct config *c, const char *assignment, char error[CONFIG_ERROR_BYTES]);

/* The table, for --help and the manual: false when `i` is past the end. */
struct config_key_description {
    const char *key, *allowed, *help;
    char value[512]; /* as in `c` */
};
bool config_describe(const struct config *c, size_t i, struct config_key_description *ret);
