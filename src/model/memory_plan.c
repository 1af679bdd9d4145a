/* See memory_plan.h. */
#include "model/memory_plan.h"

static const uint32_t weights[MEMORY_PART_COUNT] = {
#define X(id, name, weight) [MEMORY_##id] = (weight),
    MEMORY_PARTS(X)
#undef X
};
_Static_assert(MEMORY_PART_COUNT <= 32, "a bit of a set for each part");

const char *memory_part_name(enum memory_part part)
{
    static const char *const names[MEMORY_PART_COUNT] = {[MEMORY_NONE] = "none",
#define X(id, name, weight) [MEMORY_##id] = name,
                                                         MEMORY_PARTS(X)
#undef X
    };
    return names[part];
}

static uint64_t weight_of(unsigned parts)
{
    uint64_t sum = 0;
    for (unsigned part = 0; part < MEMORY_PART_COUNT; part++)
        sum += parts & MEMORY_PART_BIT(part) ? weights[part] : 0;
    return sum;
}

void memory_plan_divide(uint64_t whole_bytes, uint64_t fixed_bytes, unsigned parts, uint64_t recorder_max_bytes,
                        struct memory_plan *ret)
{
    const uint64_t needed = fixed_bytes + MEMORY_PLAN_LEAST;
    uint64_t rest = whole_bytes > needed ? whole_bytes - fixed_bytes : MEMORY_PLAN_LEAST, sum = weight_of(parts);
    *ret = (struct memory_plan){.fixed_bytes = fixed_bytes,
                                .missing_bytes = whole_bytes < needed ? needed - whole_bytes : 0};
    for (unsigned part = 0; part < MEMORY_PART_COUNT; part++) {
        if (!(parts & MEMORY_PART_BIT(part)))
            continue;
        ret->bytes[part] = rest * weights[part] / sum;
        if (part == MEMORY_RECORDER && ret->bytes[part] > recorder_max_bytes) { /* the first one */
            ret->bytes[part] = recorder_max_bytes;
            rest -= recorder_max_bytes;
            sum -= weights[part];
        }
    }
}

uint64_t memory_plan_resize(struct memory_plan *plan, uint64_t whole_bytes)
{
    uint64_t kept = plan->fixed_bytes;
    unsigned parts = 0;
    for (unsigned part = 0; part < MEMORY_PART_COUNT; part++)
        if (!(MEMORY_RESIZABLE & MEMORY_PART_BIT(part)))
            kept += plan->bytes[part];
        else if (plan->bytes[part])
            parts |= MEMORY_PART_BIT(part);
    const uint64_t needed = kept + MEMORY_RESIZABLE_LEAST, sum = weight_of(parts);
    if (whole_bytes < needed)
        return needed;
    for (unsigned part = 0; part < MEMORY_PART_COUNT; part++)
        if (parts & MEMORY_PART_BIT(part))
            plan->bytes[part] = (whole_bytes - kept) * weights[part] / sum;
    plan->missing_bytes = 0;
    return needed;
}
