/* See service_names.h. */
#include "model/service_names.h"

#include <stdio.h>
#include <string.h>

size_t service_names_place(char names[][SERVICE_NAME_BYTES], size_t max, size_t *count, const char *name)
{
    char cut[SERVICE_NAME_BYTES]; /* as the names in the table are */
    snprintf(cut, sizeof(cut), "%s", name);
    for (size_t i = 0; i < *count; i++)
        if (strcmp(names[i], cut) == 0)
            return i;
    if (*count == max)
        return max - 1;
    const size_t i = (*count)++;
    snprintf(names[i], SERVICE_NAME_BYTES, "%s", *count == max ? "other" : cut);
    return i;
}
