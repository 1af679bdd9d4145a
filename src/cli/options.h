/* Command-line options of a subcommand as one table, used by the parser and by `--help`.
 *
 * Long options take `--name VALUE` or `--name=VALUE`, short ones `-n VALUE` or `-nVALUE`; `--` ends the options. */
#pragma once

#include "base/text_list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_type {
    OPTION_FLAG,     /* bool * */
    OPTION_TEXT,     /* const char **, borrowed from argv */
    OPTION_INTEGER,  /* int64_t *, in [min, max] */
    OPTION_DURATION, /* uint64_t * nanoseconds, in [min, max] nanoseconds */
    OPTION_TEXTS,    /* struct text_list *: may be given several times */
};

struct option_spec {
    char letter;      /* 0: none */
    const char *name; /* long name, without dashes */
    enum option_type type;
    void *value;         /* destination; holds the default */
    const char *metavar; /* "HZ" */
    const char *help;
    int64_t min, max;
};

struct subcommand {
    const char *name;
    const char *synopsis; /* after `sonde NAME` */
    const char *summary;  /* one line, for `sonde --help` */
    const char *details;  /* paragraphs for `sonde NAME --help`; may be NULL */
    bool flags_anywhere;  /* options are accepted after operands, which are not a command with options of its own */
    int (*run)(int argc, char **argv); /* the exit status, or -errno */
};

/* Parses argv[1..]. Operands are moved to argv[1] and following; `*ret_operands` is their number. NULL: the subcommand
 * takes none. Without flags_anywhere the first operand ends the options (a command to run). `specs` ends with an entry
 * without a name. Returns 0, 1 when --help was printed, or -EINVAL after logging. */
int options_parse(const struct subcommand *subcommand, const struct option_spec *specs, int argc, char **argv,
                  int *ret_operands);
