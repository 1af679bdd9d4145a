/* All signals: the table of meson.build. */
#pragma once

#include "signals/signal.h"

#define SIGNALS_MAX 20

/* NULL-terminated, in the order of opening and draining their sources. */
extern const struct signal *const all_signals[];

/* How records of this kind are validated and consumed, and whose they are: `*ret_signal` is an index of all_signals.
 * NULL: the kind is unknown, and `*ret_signal` is unchanged. */
const struct record_type *signals_record_type(unsigned kind, size_t *ret_signal);

/* Validates a record of any signal, for batch_new and record_reader_open. */
bool signals_check_record(const struct record_header *header);
