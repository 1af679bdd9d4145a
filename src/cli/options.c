/* Option parser and --help from one table; see options.h. */
#include "cli/options.h"

#include "base/log.h"
#include "base/units.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void print_help(const struct subcommand *subcommand, const struct option_spec *specs)
{
    printf("Usage: sonde %s %s\n\n%s.\n", subcommand->name, subcommand->synopsis, subcommand->summary);
    if (subcommand->details)
        printf("\n%s\n", subcommand->details);
    printf("\nOptions:\n");
    for (; specs->name; specs++) {
        char flag[64];
        snprintf(flag, sizeof(flag), "%s%c%s --%s%s%s", specs->letter ? "-" : " ", specs->letter ? specs->letter : ' ',
                 specs->letter ? "," : " ", specs->name, specs->metavar ? " " : "",
                 specs->metavar ? specs->metavar : "");
        printf("  %-32s %s\n", flag, specs->help);
    }
    printf("  -h, --help                       this text\n");
}

static int bad_value(const struct subcommand *subcommand, const struct option_spec *spec, const char *value,
                     const char *wanted)
{
    log_error("%s: --%s: '%s' is not %s", subcommand->name, spec->name, value, wanted);
    return -EINVAL;
}

static int set_value(const struct subcommand *subcommand, const struct option_spec *spec, const char *value)
{
    char wanted[160], low[32], high[32];
    switch (spec->type) {
    case OPTION_FLAG:
        *(bool *)spec->value = true;
        return 0;
    case OPTION_TEXT:
        *(const char **)spec->value = value;
        return 0;
    case OPTION_INTEGER:
        if (units_parse_integer(value, spec->min, spec->max, spec->value) == 0)
            return 0;
        snprintf(wanted, sizeof(wanted), "a whole number from %lld to %lld", (long long)spec->min,
                 (long long)spec->max);
        return bad_value(subcommand, spec, value, wanted);
    case OPTION_DURATION: {
        uint64_t ns;
        if (units_parse_duration_ns(value, &ns) == 0 && ns >= (uint64_t)spec->min && ns <= (uint64_t)spec->max) {
            *(uint64_t *)spec->value = ns;
            return 0;
        }
        snprintf(wanted, sizeof(wanted), "a duration from %s to %s, such as 10s or 5m",
                 units_format_duration(spec->min, low, sizeof(low)),
                 units_format_duration(spec->max, high, sizeof(high)));
        return bad_value(subcommand, spec, value, wanted);
    }
    case OPTION_TEXTS: {
        struct text_list *texts = spec->value;
        if (texts->count == TEXT_LIST_MAX) {
            log_error("%s: --%s can be given at most %d times", subcommand->name, spec->name, TEXT_LIST_MAX);
            return -EINVAL;
        }
        texts->values[texts->count++] = value;
        return 0;
    }
    }
    return -EINVAL;
}

static const struct option_spec *find_long(const struct option_spec *specs, const char *name, size_t length)
{
    for (; specs->name; specs++)
        if (strlen(specs->name) == length && strncmp(specs->name, name, length) == 0)
            return specs;
    return NULL;
}

static const struct option_spec *find_letter(const struct option_spec *specs, char letter)
{
    for (; specs->name; specs++)
        if (specs->letter && specs->letter == letter)
            return specs;
    return NULL;
}

/* Parses the flag at argv[*i]; advances `*i` when it consumes the next argument as its value. */
static int parse_flag(const struct subcommand *subcommand, const struct option_spec *specs, int argc, char **argv,
                      int *i)
{
    const char *argument = argv[*i], *value = NULL;
    const struct option_spec *spec;
    if (argument[1] == '-') {
        size_t length = strcspn(argument + 2, "=");
        spec = find_long(specs, argument + 2, length);
        if (argument[2 + length] == '=')
            value = argument + 2 + length + 1;
    } else {
        spec = find_letter(specs, argument[1]);
        if (argument[2])
            value = argument + 2;
    }
    if (!spec) {
        log_error("%s: unknown option %s (sonde %s --help lists them)", subcommand->name, argument, subcommand->name);
        return -EINVAL;
    }
    if (spec->type == OPTION_FLAG && value) {
        log_error("%s: --%s takes no value", subcommand->name, spec->name);
        return -EINVAL;
    }
    if (spec->type != OPTION_FLAG && !value) {
        if (*i + 1 >= argc) {
            log_error("%s: --%s needs a value (%s)", subcommand->name, spec->name,
                      spec->metavar ? spec->metavar : "VALUE");
            return -EINVAL;
        }
        value = argv[++*i];
    }
    return set_value(subcommand, spec, value);
}

int options_parse(const struct subcommand *subcommand, const struct option_spec *specs, int argc, char **argv,
                  int *ret_operands)
{
    int operands = 0;
    bool flags_ended = false;
    for (int i = 1; i < argc; i++) {
        if (!flags_ended && strcmp(argv[i], "--") == 0) {
            flags_ended = true;
        } else if (!flags_ended && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            print_help(subcommand, specs);
            return 1;
        } else if (!flags_ended && argv[i][0] == '-' && argv[i][1]) {
            int r = parse_flag(subcommand, specs, argc, argv, &i);
            if (r < 0)
                return r;
        } else if (!ret_operands) {
            log_error("%s: unexpected argument '%s' (see sonde %s --help)", subcommand->name, argv[i],
                      subcommand->name);
            return -EINVAL;
        } else {
            argv[1 + operands++] = argv[i];
            flags_ended |= !subcommand->flags_anywhere;
        }
    }
    if (ret_operands)
        *ret_operands = operands;
    return 0;
}
