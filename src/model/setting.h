/* The description of one setting: its key in the configuration file, its type, and where its value is kept. */
#pragma once

#include <stddef.h>

enum setting_type {
    SETTING_BOOL,     /* bool */
    SETTING_INTEGER,  /* int64_t */
    SETTING_PERCENT,  /* double: 0.01 for "1%" */
    SETTING_SIZE,     /* uint64_t: bytes */
    SETTING_DURATION, /* uint64_t: nanoseconds */
    SETTING_ADDRESS,  /* this and the following: char[size], terminated; ADDRESS:PORT or "none" */
    SETTING_SOCKET,   /* path of a Unix socket or "none" */
    SETTING_HOSTS,
    SETTING_CHOICE,
    SETTING_URL,
    SETTING_TEXT,
    SETTING_SECRET,
    SETTING_SAMPLING_RULES,
    SETTING_LABELS,
    SETTING_ATTRIBUTES
};

struct setting {
    const char *key; /* "budget.one_cpu" */
    enum setting_type type;
    size_t offset, size; /* of the value in the struct that holds it */
    double min, max;
    const char *allowed; /* in prose; for SETTING_CHOICE the words, separated by ", " */
    const char *help;    /* NULL: not for configuration files; set by the command line only */
};
