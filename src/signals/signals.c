/* The table of signals, and the table of record types that follows from it. See signals.h. */
#include "signals/signals.h"

#define SIGNAL(name) extern const struct signal signal_##name;
#include "signals_table.h"
#undef SIGNAL

const struct signal *const all_signals[] = {
#define SIGNAL(name) &signal_##name,
#include "signals_table.h"
#undef SIGNAL
    NULL,
};
_Static_assert(sizeof(all_signals) / sizeof(all_signals[0]) <= SIGNALS_MAX + 1, "SIGNALS_MAX signals");

int signal_create_plain(const struct signal_services *services, const void *settings, void *source, void **ret_self)
{
    (void)settings, (void)source;
    *ret_self = (void *)services;
    return 0;
}

bool signal_is_node_wide(const void *settings)
{
    (void)settings;
    return true;
}

const struct record_type *signals_record_type(unsigned kind, size_t *ret_signal)
{
    for (size_t i = 0; all_signals[i]; i++)
        for (const struct record_type *type = all_signals[i]->records; type && type->kind; type++)
            if (type->kind == kind) {
                *ret_signal = i;
                return type;
            }
    return NULL;
}

bool signals_check_record(const struct record_header *header)
{
    const uint32_t size = header->size_bytes;
    size_t signal;
    if (size < sizeof(*header) || size > RECORD_MAX_BYTES || size % 8 != 0)
        return false;
    const struct record_type *type = signals_record_type(header->kind, &signal);
    return type && type->is_valid(header);
}
