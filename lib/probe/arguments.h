/* What a probe's arguments are: the declaration that sonde_probe_add is given, read into types, and what
 * consumers are told of them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <sonde/probe.h>

#define PROBE_DECLARATION_MAX (SONDE_PROBE_ARGUMENTS_MAX * (SONDE_PROBE_NAME_MAX + 6) + 1)

struct probe_arguments {
    unsigned count;
    unsigned doubles; /* a bit for each that is an f64 */
    const struct probe_type *types[SONDE_PROBE_ARGUMENTS_MAX];
    char declaration[PROBE_DECLARATION_MAX]; /* "str model, u32 queue_len", in one spelling */
};

/* Whether `name` is a C identifier of 1 to SONDE_PROBE_NAME_MAX bytes, in ASCII whatever the locale. */
int probe_name_is_good(const char *name);

/* Reads a declaration (probe.h). On failure *ret_bad, if the fault has a place, points to it in `text`.
 * -EINVAL, -E2BIG. */
int probe_arguments_parse(const char *text, struct probe_arguments *ret_arguments, const char **ret_bad);

/* `value`, which is a double where the argument is none or the other way round, as the bits that the argument
 * travels as. */
uint64_t probe_arguments_convert(const struct probe_arguments *arguments, unsigned index,
                                 const struct sonde_value *value);

/* The same for any value. */
static inline uint64_t probe_arguments_bits(const struct probe_arguments *arguments, unsigned index,
                                            const struct sonde_value *value)
{
    unsigned is_double = value->kind == SONDE_VALUE_DOUBLE;
    return __builtin_expect(is_double == (arguments->doubles >> index & 1), 1)
               ? value->bits
               : probe_arguments_convert(arguments, index, value);
}

/* The arguments in the words of a .note.stapsdt, such as "8@%rdi -4@%rsi"; returns the length, cut like
 * snprintf. */
size_t probe_arguments_describe(const struct probe_arguments *arguments, char *out, size_t size);
