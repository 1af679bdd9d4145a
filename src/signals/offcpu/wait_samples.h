/* Turns off-CPU records into samples: sums up equal waits (resolve/sample/wait_sums.h), resolves their stacks, and
 * adds the reason of the wait (diagnose/off_cpu.h) and its waker (waker_stack.h). Pipeline thread only. */
#pragma once

#include "model/loss.h"
#include "model/sample.h"
#include "resolve/sample/samples.h"
#include "resolve/sample/wait_sums.h"

struct wait_samples;

/* `give` is called from within the functions below, with samples that are valid until it returns. All pointers are
 * borrowed. `max_bytes`: limit of the stacks' memory. The caller frees `*ret`. -ENOMEM. */
int wait_samples_new(struct sample_resolver *resolver, size_t max_bytes, struct losses *losses,
                     void (*give)(void *context, const struct sample *sample), void *context,
                     struct wait_samples **ret);
void wait_samples_free(struct wait_samples *w);

/* See wait_sums.h. wait_samples_stack takes the stack of a wait or of a waker, by the record's kind. */
void wait_samples_stack(struct wait_samples *w, const struct stack_record *record);
void wait_samples_add(struct wait_samples *w, const struct off_cpu_wait *record);
void wait_samples_flush(struct wait_samples *w, uint32_t pid);
void wait_samples_flush_all(struct wait_samples *w);
uint64_t wait_samples_pending(const struct wait_samples *w);
void wait_samples_forget(struct wait_samples *w, uint32_t pid, uint32_t tid);

/* The number of waits so far whose waker is unknown although wakers are recorded. */
uint64_t wait_samples_wakers_unseen(const struct wait_samples *w);
