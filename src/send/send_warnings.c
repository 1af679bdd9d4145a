/* See send_warnings.h. */
#include "send/send_warnings.h"

#include <stdio.h>
#include <string.h>

#define WARN_AGAIN_NS (300 * 1000000000ull)

static bool is_due(uint64_t last_ns, uint64_t now_ns)
{
    return !last_ns || now_ns - last_ns >= WARN_AGAIN_NS;
}

bool send_warnings_failure(struct send_warnings *w, const char *why, uint64_t now_ns)
{
    if (!is_due(w->failure_ns, now_ns))
        return false;
    w->failure_ns = now_ns;
    w->is_failing = true;
    snprintf(w->why, sizeof(w->why), "%s", why);
    return true;
}

/* libcurl 7.88 may lose an early response (of a server without the service, sent before the whole packet arrived) and
 * report a stream error first. That transient error must not hide the refusal. */
bool send_warnings_refusal(struct send_warnings *w, const char *why, uint64_t now_ns)
{
    if (strcmp(why, w->why) == 0 || !is_due(w->refusal_ns, now_ns))
        return false;
    w->refusal_ns = now_ns;
    return true;
}

bool send_warnings_rejection(struct send_warnings *w, uint64_t now_ns)
{
    const bool due = is_due(w->rejection_ns, now_ns);
    w->rejection_ns = due ? now_ns : w->rejection_ns;
    return due;
}

bool send_warnings_accepted(struct send_warnings *w)
{
    const bool was_failing = w->is_failing;
    w->is_failing = false;
    return was_failing;
}
