/* What this process has mapped, for tests of what comes and goes. */
#pragma once

#include <stdio.h>
#include <string.h>

/* How many lines of /proc/self/maps have the text. */
static inline int count_mappings(const char *of)
{
    char line[512];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (fgets(line, sizeof(line), maps))
        count += strstr(line, of) != NULL;
    fclose(maps);
    return count;
}
