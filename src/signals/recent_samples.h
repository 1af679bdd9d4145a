/* The places where threads ran in the last seconds: the code places of recent samples of the CPU profile, by thread and
 * time, as evidence for requests. A ring: the newest samples overwrite the oldest. Pipeline thread only. */
#pragma once

#include "base/cleanup.h"
#include "diagnose/code/code_tally.h"
#include "model/sample.h"

#include <stdint.h>

struct recent_samples;

/* The caller frees `*ret`. -ENOMEM. */
int recent_samples_new(struct recent_samples **ret);
void recent_samples_free(struct recent_samples *s);
DEFINE_FREEP(recent_samples)

/* Keeps a sample of CPU time that stands for one moment; does nothing with others, and with those without frames. */
void recent_samples_add(struct recent_samples *s, const struct sample *sample);

/* Adds the places of thread `tid` in [from, to) to `tally`. */
void recent_samples_find(const struct recent_samples *s, uint32_t tid, uint64_t from_ns, uint64_t to_ns,
                         struct code_tally *tally);
