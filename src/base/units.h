/* Numbers with units in configuration and flags. Every parser accepts the whole text or fails. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* "250ms", "60s", "5m", "1h"; a number without unit is seconds. -EINVAL: not a duration; -ERANGE: too large. */
int units_parse_duration_ns(const char *text, uint64_t *ret_ns);

/* "64MiB", "512KiB", "1GiB", "1000B"; a number without unit is bytes. */
int units_parse_size_bytes(const char *text, uint64_t *ret_bytes);

/* "1%", "0.5%": a share; 1 % gives 0.01. Without "%": -EINVAL. */
int units_parse_percent(const char *text, double *ret_share);

/* A decimal integer in [min, max]; -EINVAL, -ERANGE. */
int units_parse_integer(const char *text, int64_t min, int64_t max, int64_t *ret);

/* "1.50 ms", "12.0 s", "850 ns": three significant digits, for display. Returns `out`. */
const char *units_format_duration(uint64_t ns, char *out, size_t size);
/* "1.2 MiB". */
const char *units_format_size(uint64_t bytes, char *out, size_t size);
/* "3,000,000". */
const char *units_format_count(uint64_t count, char *out, size_t size);
