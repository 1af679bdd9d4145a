/* Providers that count their warnings and keep the last one. */
#pragma once

#include <sonde/probe.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

struct warnings {
    int count;
    char last[512];
};

static inline void keep_warning(void *context, const char *text)
{
    struct warnings *warnings = context;
    warnings->count++;
    snprintf(warnings->last, sizeof(warnings->last), "%s", text);
}

static inline struct sonde_provider *new_provider(const char *name, struct warnings *warnings)
{
    struct sonde_provider *provider;
    assert_int_equal(sonde_provider_new(name, &provider), 0);
    *warnings = (struct warnings){0};
    sonde_provider_on_warning(provider, keep_warning, warnings);
    return provider;
}
