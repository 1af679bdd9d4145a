/* The types of samples; see sample_type.h. */
#include "model/sample_type.h"

#include "base/cleanup.h"

#include <stddef.h>
#include <string.h>

#define NANOSECONDS "nanoseconds"

const struct sample_type sample_type_cpu = {.name = "cpu", .unit = NANOSECONDS, .counts = "samples"};
const struct sample_type sample_type_off_cpu = {
    .name = "off_cpu", .unit = NANOSECONDS, .counts = "waits", .is_interval = true};
const struct sample_type sample_type_wall = {
    .name = "wall", .unit = NANOSECONDS, .counts = "events", .is_interval = true};
const struct sample_type sample_type_gpu = {
    .name = "gpu", .unit = NANOSECONDS, .counts = "executions", .is_interval = true};

const struct sample_type *sample_type_find(const char *name)
{
    static const struct sample_type *const types[] = {&sample_type_cpu, &sample_type_off_cpu, &sample_type_wall};
    for (size_t i = 0; i < array_size(types); i++)
        if (strcmp(name, types[i]->name) == 0)
            return types[i];
    return NULL;
}

bool sample_type_equal(const struct sample_type *a, const struct sample_type *b)
{
    return a == b || (strcmp(a->name, b->name) == 0 && strcmp(a->unit, b->unit) == 0);
}

bool sample_type_is_time(const struct sample_type *t)
{
    return strcmp(t->unit, NANOSECONDS) == 0;
}
