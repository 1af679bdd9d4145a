/* Arbitrary bytes as requests of all signals: reading stays within them, and the rows have a limit. */
#include "server/otlp_rows.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct otlp_signal *const signals[] = {&otlp_traces, &otlp_logs, &otlp_metrics, &otlp_profiles};
    for (size_t i = 0; i < array_size(signals); i++) {
        _cleanup_otlp_rows_ struct otlp_rows rows = {.to_ns = UINT64_MAX};
        const int r = signals[i]->decode(cursor_make(data, size), &rows);
        for (size_t table = 0; table < TABLE_COUNT; table++) {
            const bool is_per_day = table >= TABLE_PROFILE_RESOURCES && table <= TABLE_PROFILE_STACKS;
            if (rows.tables[table].size > OTLP_ROWS_MAX_BYTES ||
                (r == 0 && rows.counts[table] > (is_per_day ? OTLP_ROWS_MAX : size)))
                abort();
        }
    }
    return 0;
}
