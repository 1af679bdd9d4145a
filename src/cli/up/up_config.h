/* The configuration of `sonde up`: the environment, the file, and the options of the command line, which override both.
 * Errors are -EINVAL, and are logged. */
#pragma once

#include "cli/options.h"
#include "config/config.h"
#include "serve/page.h"

struct up_options {
    const char *config_path; /* NULL: the default, if it exists */
    struct text_list settings;
    const char *listen; /* NULL: as configured; so are 0 and false below */
    int64_t rate;
    bool off_cpu;
};

/* Reads the file and sets what the options say. */
int up_config_read(const struct up_options *o, struct config *c);

/* See config_check and config_check_access. */
int up_config_check(struct config *c);
int up_config_check_access(const struct config *c);
/* The paths of `c`, borrowed. */
struct page_access up_config_page_access(const struct config *c);

void up_config_apply_log_level(const struct config *c);
