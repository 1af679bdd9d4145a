/* The agents that report by OpAMP: what the server remembers of each between its reports. Bounded: an agent that has
 * not reported for AGENTS_FORGET_NS gives its place to a new one. An agent that starts again has its former instance
 * UID. Two agents that have the same are noticed when they report in turn: the time of the start, which each report
 * has, goes back to that of the agent that reported before. Thread-safe. */
#pragma once

#include "base/cleanup.h"
#include "server/opamp_report.h"

#include <stddef.h>
#include <stdint.h>

#define AGENTS_FORGET_NS (600 * 1000000000ull)
#define AGENTS_ROW_NS    (60 * 1000000000ull)   /* between two rows of an agent that reports nothing new */
#define AGENTS_FULL_NS   (3600 * 1000000000ull) /* between two reports with everything: rows are not kept for ever */
#define AGENT_TEXT_BYTES 256

struct agents;

/* What an agent has said of itself, in its last description. */
struct agent_facts {
    char host[AGENT_TEXT_BYTES], service[AGENT_TEXT_BYTES], version[AGENT_TEXT_BYTES];
    char kernel[AGENT_TEXT_BYTES], machine[AGENT_TEXT_BYTES];
    bool takes_captures;
};

struct agent_verdict {
    bool needs_full; /* the server lacks parts: the agent has to report everything */
    bool needs_row;  /* the report is new enough to be stored */
    bool is_twin;    /* another agent reports with the same instance UID: this one needs another */
    struct agent_facts facts;
};

/* 0 or -ENOMEM. `max`: agents that are known at a time. */
int agents_new(size_t max, struct agents **ret);
void agents_free(struct agents *a);
DEFINE_FREEP(agents)

/* Takes a report at `now_ns` (CLOCK_MONOTONIC). 0. -EBUSY: there are `max` other agents. -ENOMEM. */
int agents_take(struct agents *a, const struct opamp_report *report, uint64_t now_ns, struct agent_verdict *ret);
/* The report that was taken is lost: the agent will have to report everything again. */
void agents_forget(struct agents *a, const uint8_t uid[OPAMP_UID_BYTES]);

/* 0: an agent of this host takes captures. -EOPNOTSUPP: none of its agents does. -ENOENT: it has none. */
int agents_check_captures(struct agents *a, const char *host);

size_t agents_count(struct agents *a);
