/* Mappings of this process, for tests of code that maps and unmaps. */
#pragma once

#include <stdio.h>
#include <string.h>

/* Number of lines of /proc/self/maps that contain the text. */
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
