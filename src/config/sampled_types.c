/* The types of samples of a configuration; see sampled_types.h. */
#include "config/sampled_types.h"

#include "signals/signals.h"
#include "sources/sampling/sampling_rules.h"

size_t sampled_types(const struct config *config, struct sampled_type ret[SAMPLED_TYPES_MAX])
{
    struct sampling_rules rules;
    const uint32_t clock_hz = config_sampling_rules(config, &rules); /* every rule's rate is derived from its ticks */
    size_t count = 0;
    ret[count++] = (struct sampled_type){&sample_type_cpu, clock_hz ? 1000000000ull / clock_hz : 0};
    for (size_t i = 0; all_signals[i] && count < SAMPLED_TYPES_MAX; i++) {
        const struct sample_type *type = all_signals[i]->sample_type;
        if (type && type != &sample_type_cpu && config_enables(config, all_signals[i]))
            ret[count++] = (struct sampled_type){type, 0};
    }
    return count;
}
