/* A probe's arguments: parses the declaration given to sonde_probe_add into types, and describes them for USDT notes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <sonde/probe.h>

#define PROBE_DECLARATION_MAX (SONDE_PROBE_ARGUMENTS_MAX * (SONDE_PROBE_NAME_MAX + 6) + 1)

struct probe_arguments {
    unsigned count;
    unsigned doubles; /* bit mask: set for each f64 argument */
    const struct probe_type *types[SONDE_PROBE_ARGUMENTS_MAX];
    char declaration[PROBE_DECLARATION_MAX]; /* "str model, u32 queue_len", in canonical spelling */
};

/* Whether `name` is a C identifier of 1 to SONDE_PROBE_NAME_MAX bytes; ASCII regardless of the locale. */
int probe_name_is_good(const char *name);

/* Parses a declaration (probe.h). On failure *ret_bad points to the error in `text`. -EINVAL, -E2BIG. */
int probe_arguments_parse(const char *text, struct probe_arguments *ret_arguments, const char **ret_bad);

/* Converts `value` between double and integer where its kind differs from the declared type; returns the bits to pass
 * as the argument. */
uint64_t probe_arguments_convert(const struct probe_arguments *arguments, unsigned index,
                                 const struct sonde_value *value);

/* The same for any value, with the common case inlined. */
static inline uint64_t probe_arguments_bits(const struct probe_arguments *arguments, unsigned index,
                                            const struct sonde_value *value)
{
    unsigned is_double = value->kind == SONDE_VALUE_DOUBLE;
    return __builtin_expect(is_double == (arguments->doubles >> index & 1), 1)
               ? value->bits
               : probe_arguments_convert(arguments, index, value);
}

/* Writes the operand string of a .note.stapsdt, such as "8@%rdi -4@%rsi"; returns the full length, truncates like
 * snprintf. */
size_t probe_arguments_describe(const struct probe_arguments *arguments, char *out, size_t size);
