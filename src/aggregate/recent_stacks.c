/* A ring of texts, searched from the newest entry; see recent_stacks.h. */
#include "aggregate/recent_stacks.h"

#include "model/frame.h"
#include "model/sample_type.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES     8192 /* 1 MiB */
#define FRAMES      3
#define FRAME_BYTES 32         /* of a function's name */
#define ORDER_NS    1000000000 /* how much earlier than one before it a sample may be */

struct entry {
    uint64_t time_ns;
    uint32_t tid;
    char text[RECENT_STACK_BYTES];
};

struct recent_stacks {
    struct entry samples[SAMPLES]; /* number n is at n % SAMPLES */
    uint64_t sample_count;
};

int recent_stacks_new(struct recent_stacks **ret)
{
    struct recent_stacks *s = calloc(1, sizeof(*s)); /* pages take memory when they are first written to */
    if (!s)
        return -ENOMEM;
    *ret = s;
    return 0;
}

void recent_stacks_free(struct recent_stacks *s)
{
    free(s);
}

/* A name that does not fit ends in "...". */
static void append_name(const char *name, char out[RECENT_STACK_BYTES])
{
    const size_t used = strlen(out);
    const bool is_long = strlen(name) > FRAME_BYTES;
    snprintf(out + used, RECENT_STACK_BYTES - used, "%s%.*s%s", used ? " < " : "",
             is_long ? FRAME_BYTES - 3 : FRAME_BYTES, name, is_long ? "..." : "");
}

/* True for a function that occurs in every stack of a garbage collection, or of the work that a thread does for one. */
static bool is_collector(const char *function)
{
    static const char *const prefixes[] = {
        "v8::internal::Heap::CollectGarbage",
        "v8::internal::MarkCompactCollector",
        "v8::internal::ConcurrentMarking",
        "v8::internal::Scaveng",
        "v8::internal::Sweeper",
        "v8::internal::PageEvacuationJob",
        "VM_GenCollect",
        "VM_CollectFor",
        "VM_G1",
        "VM_ParallelGC",
        "VM_Shenandoah",
        "VM_Z",
        "G1Adjust",
        "G1CM",
        "G1Concurrent",
        "G1Evac",
        "G1Full",
        "G1Par",
        "G1Remark",
        "G1Root",
        "G1STW",
        "G1Young",
        "PSParallelCompact",
        "PSPromotion",
        "PSScavenge",
        "ScavengeRoots",
        "ShenandoahConcurrentMark",
        "ShenandoahEvacuation",
        "ShenandoahFullGC",
        "ShenandoahMark",
        "ShenandoahUpdateHeap",
        "ZMark",
        "ZRelocate",
        "runtime.gcStart",
        "runtime.gcAssistAlloc",
        "runtime.gcBgMarkWorker",
        "runtime.gcMarkTermination",
        "gc_collect_main",
    };
    for (size_t i = 0; i < array_size(prefixes); i++)
        if (strncmp(function, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* Writes the outermost collector function of `sample`, if any: the innermost functions of a collection differ. */
static void put_collector(const struct sample *sample, char out[RECENT_STACK_BYTES])
{
    for (size_t i = sample->frame_count; i-- > 0;)
        if (sample->frames[i].function && is_collector(sample->frames[i].function)) {
            snprintf(out, RECENT_STACK_BYTES, "garbage collection: %s", sample->frames[i].function);
            return;
        }
}

/* The innermost frames. */
static void put_frames(const struct sample *sample, char out[RECENT_STACK_BYTES])
{
    char name[FRAME_TEXT_BYTES];
    size_t shown = 0;
    for (size_t i = 0; i < sample->frame_count && shown < FRAMES; i++) {
        const struct frame *f = &sample->frames[i];
        if (f->kind == FRAME_TRUNCATED || f->kind == FRAME_WAIT)
            continue;
        append_name(frame_text(f->kind, f->function, f->mapping, f->address, name), out);
        shown++;
    }
}

void recent_stacks_add(struct recent_stacks *s, const struct sample *sample)
{
    char text[RECENT_STACK_BYTES] = "";
    if (sample->type != &sample_type_cpu || sample->count > 1)
        return;
    put_collector(sample, text);
    if (!text[0])
        put_frames(sample, text);
    if (!text[0])
        return;
    struct entry *e = &s->samples[s->sample_count++ % SAMPLES];
    *e = (struct entry){.time_ns = sample->time_ns, .tid = sample->tid};
    memcpy(e->text, text, RECENT_STACK_BYTES);
}

size_t recent_stacks_find(const struct recent_stacks *s, uint32_t tid, uint64_t from_ns, uint64_t to_ns,
                          const char **ret, size_t max)
{
    size_t found = 0;
    for (uint64_t n = s->sample_count; n-- > 0 && s->sample_count - n <= SAMPLES && found < max;) {
        const struct entry *e = &s->samples[n % SAMPLES];
        if (e->time_ns + ORDER_NS < from_ns)
            break;
        if (e->tid == tid && e->time_ns >= from_ns && e->time_ns < to_ns)
            ret[found++] = e->text;
    }
    return found;
}
