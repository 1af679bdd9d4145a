/* A signal by its name, and node events as text, for the tests of signals. */
#pragma once

#include "signals/signals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static inline const struct signal *signal_named(const char *name)
{
    for (size_t i = 0; all_signals[i]; i++)
        if (strcmp(all_signals[i]->name, name) == 0)
            return all_signals[i];
    fail();
    return NULL;
}

/* Writes "NAME: TEXT; ATTRIBUTE=VALUE; ...". Returns the number of characters. */
static inline size_t event_text(const struct node_event *event, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "%s: %s", event->name, event->text);
    for (size_t i = 0; i < event->attribute_count; i++)
        used +=
            (size_t)snprintf(out + used, size - used, "; %s=%s", event->attributes[i].name, event->attributes[i].value);
    return used;
}
