/* Numbers in files of /proc such as meminfo and PID/status: "AnonPages:    1234 kB". */
#pragma once

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Returns the number behind `label`, which begins with the end of the line before it: "\nAnonPages:". 0 if `text` lacks
 * the label. */
static inline uint64_t labelled_number(const char *text, const char *label)
{
    const char *line = strstr(text, label);
    return line ? strtoull(line + strlen(label), NULL, 10) : 0;
}
