/* From the records of waiting time to samples: waits that are alike are added up (resolve/sample/wait_sums.h), named,
 * and told why they were (diagnose/off_cpu.h), and who ended them (waker_stack.h). Pipeline thread only. */
#pragma once

#include "model/loss.h"
#include "model/sample.h"
#include "resolve/sample/samples.h"
#include "resolve/sample/wait_sums.h"

struct wait_samples;

/* `give` is called from within the calls below, with samples that hold until it returns. All is borrowed. `max_bytes`:
 * of stacks. */
int wait_samples_new(struct sample_resolver *resolver, size_t max_bytes, struct losses *losses,
                     void (*give)(void *context, const struct sample *sample), void *context,
                     struct wait_samples **ret);
void wait_samples_free(struct wait_samples *w);

/* As those of wait_sums; the first is of a wait's stack, or of who woke its thread, by the record's kind. */
void wait_samples_stack(struct wait_samples *w, const struct cpu_sample *record);
void wait_samples_add(struct wait_samples *w, const struct off_cpu_wait *record);
void wait_samples_flush(struct wait_samples *w, uint32_t pid);
void wait_samples_forget(struct wait_samples *w, uint32_t pid, uint32_t tid);

/* Waits told so far of which it is not known who ended them, though that was asked for. */
uint64_t wait_samples_wakers_unseen(const struct wait_samples *w);
