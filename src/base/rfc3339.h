/* Moments as RFC 3339 writes them: "2026-11-30T18:28:18.570126972Z". Pure. */
#pragma once

#include <stdint.h>

#define RFC3339_BYTES 48

/* Reads a moment of the years 1970 to 2099, with Z or an offset such as +01:00, and at most nine digits after the
 * second. -EINVAL: the text is none. */
int rfc3339_parse_ns(const char *text, uint64_t *ret_unix_ns);

/* Writes a moment of these years in UTC. Returns `out`. */
const char *rfc3339_format_ns(uint64_t unix_ns, char out[RFC3339_BYTES]);
