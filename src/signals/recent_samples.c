/* A ring of code places, searched from the newest entry; see recent_samples.h. */
#include "signals/recent_samples.h"

#include "model/sample_type.h"

#include <errno.h>
#include <stdlib.h>

#define SAMPLES  4096       /* 1 MiB */
#define ORDER_NS 1000000000 /* how much earlier than one before it a sample may be */

struct entry {
    uint64_t time_ns;
    uint32_t tid;
    struct code_place place;
};

struct recent_samples {
    struct entry samples[SAMPLES]; /* number n is at n % SAMPLES */
    uint64_t sample_count;
};

int recent_samples_new(struct recent_samples **ret)
{
    struct recent_samples *s = calloc(1, sizeof(*s)); /* pages take memory when they are first written to */
    if (!s)
        return -ENOMEM;
    *ret = s;
    return 0;
}

void recent_samples_free(struct recent_samples *s)
{
    free(s);
}

void recent_samples_add(struct recent_samples *s, const struct sample *sample)
{
    struct entry e = {.time_ns = sample->time_ns, .tid = sample->tid};
    if (sample->type != &sample_type_cpu || sample->count > 1)
        return;
    code_place_of(sample->frames, sample->frame_count, &e.place);
    if (e.place.function[0] || e.place.runs[0])
        s->samples[s->sample_count++ % SAMPLES] = e;
}

void recent_samples_find(const struct recent_samples *s, uint32_t tid, uint64_t from_ns, uint64_t to_ns,
                         struct code_tally *tally)
{
    for (uint64_t n = s->sample_count; n-- > 0 && s->sample_count - n <= SAMPLES;) {
        const struct entry *e = &s->samples[n % SAMPLES];
        if (e->time_ns + ORDER_NS < from_ns)
            break;
        if (e->tid == tid && e->time_ns >= from_ns && e->time_ns < to_ns)
            code_tally_add(tally, &e->place);
    }
}
