/* A verb's flags as one table: parsing, `--help`, and the man pages' synopsis all come from it, so they cannot
 * disagree.
 *
 * Long flags take `--name VALUE` or `--name=VALUE`, short ones `-n VALUE`; `--` ends flags. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_type {
    OPTION_FLAG,     /* bool * */
    OPTION_TEXT,     /* const char **, borrowed from argv */
    OPTION_INTEGER,  /* int64_t *, in [min, max] */
    OPTION_DURATION, /* uint64_t * nanoseconds, in [min, max] nanoseconds */
    OPTION_TEXTS,    /* struct option_texts *: may be given several times */
};

#define OPTION_TEXTS_MAX 64
struct option_texts {
    const char *values[OPTION_TEXTS_MAX];
    size_t count;
};

struct option_spec {
    char letter;      /* 0: none */
    const char *name; /* long name, without dashes */
    enum option_type type;
    void *value;         /* where it goes; already holds the default */
    const char *metavar; /* "HZ" */
    const char *help;
    int64_t min, max;
};

struct verb {
    const char *name;
    const char *synopsis;              /* after `sonde NAME` */
    const char *summary;               /* one line, for `sonde --help` */
    const char *details;               /* paragraphs for `sonde NAME --help`; may be NULL */
    bool flags_anywhere;               /* also behind operands, which are no command with flags of its own */
    int (*run)(int argc, char **argv); /* the exit status, or -errno */
};

/* Parses argv[1..]. Operands (a command to run, of which the first ends the flags; files) are moved to the front of
 * argv (from argv[1] on),
 * `*ret_operands` tells how many; where it is NULL there may be none. Returns 0, 1 when --help was printed, or -EINVAL
 * after the reason was printed. `specs` ends with an entry without name. */
int options_parse(const struct verb *verb, const struct option_spec *specs, int argc, char **argv, int *ret_operands);
