/* What `sonde up` does on SIGHUP, and once a second for files that change without one. Main thread. */
#pragma once

#include "agent/agent.h"
#include "cli/up/up_config.h"
#include "serve/page.h"

struct up_reload {
    const struct up_options *options;
    struct config *config; /* in force */
    struct agent *agent;
    struct page *page;
    bool has_terminal; /* set by up_reload_init */
};

void up_reload_init(struct up_reload *u);

/* Reads the configuration again, and applies the settings that can change while the agent runs: log.level,
 * budget.one_cpu, budget.memory (unless tables that keep their size need more), profile.sampling_rules (as far as the
 * loaded programs can apply them), page.token_file and the files of the page's certificate with their content. Logs
 * which other settings need a restart. If any part is invalid, logs that and changes nothing. If the signal came
 * because the terminal is gone, ends the agent instead. The argument is a struct up_reload, as below. */
void up_reload(void *reload);

void up_reload_tick(void *reload);
