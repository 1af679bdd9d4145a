/* Reads the labels of the goroutine that the current thread runs (go_labels.h), like Go's own profiler: the labels of
 * the thread's current goroutine, even while the runtime works for it on the thread's own stack. The sample stops the
 * thread, and Go never modifies a set of labels, so the data is consistent. Reads with bpf_probe_read_user only;
 * memory is not trusted: a goroutine's m must be the one that leads to it. x86-64. */
#pragma once

#include "probes/common/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "probes/context/context_tables.bpf.h"
#include "probes/unwind/unwind_sample.bpf.h"

struct go_string {
    __u64 text, bytes;
};

/* Go's src/runtime/map.go up to 1.23: a bucket has at most 8 entries. */
struct go_map {
    __u64 count;
    __u8 flags, buckets_log2;
    __u16 overflows;
    __u32 seed;
    __u64 buckets;
};
struct go_bucket {
    __u8 top[8]; /* top hash byte; below GO_BUCKET_USED: empty */
    struct go_string key[8], value[8];
};
#define GO_BUCKET_USED 5

struct go_labels_scratch {
    struct go_label label[GO_LABELS_MAX];
    struct go_bucket bucket;
    struct go_string pair[2];   /* the key and value to be added next */
    __u32 count, is_incomplete; /* some labels were truncated, left out or unreadable */
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct go_labels_scratch);
} go_labels_scratch SEC(".maps");

static __always_inline struct go_labels_scratch *go_labels_scratch_get(void)
{
    __u32 zero = 0;

    return bpf_map_lookup_elem(&go_labels_scratch, &zero);
}

/* Inlined with a constant `room`. */
static __always_inline bool go_read_text(__u8 *to, __u64 room, const struct go_string *from, __u32 *ret_bytes)
{
    __u64 bytes = from->bytes;

    *ret_bytes = bytes < 0xffffffffULL ? bytes : 0xffffffffU;
    if (bytes > room)
        bytes = room;
    UNWIND_SAME_REGISTER(bytes);
    return bytes <= room && bpf_probe_read_user(to, bytes, (const void *)from->text) == 0;
}

/* Adds a label from `pair`. Like all steps here a global function of scalars, so that the verifier checks it once, not
 * once per label. */
__noinline int go_put_label(void)
{
    struct go_labels_scratch *s = go_labels_scratch_get();
    struct go_label *label;
    __u64 at;

    if (!s)
        return 0;
    at = s->count;
    UNWIND_SAME_REGISTER(at);
    if (at >= GO_LABELS_MAX)
        return 0;
    label = &s->label[at];
    __builtin_memset(label, 0, sizeof(*label)); /* no leftovers of another process behind a shorter string */
    if (!go_read_text(label->key, GO_LABEL_KEY_BYTES, &s->pair[0], &label->key_bytes) ||
        !go_read_text(label->value, GO_LABEL_VALUE_BYTES, &s->pair[1], &label->value_bytes)) {
        s->is_incomplete = 1;
        return 0;
    }
    s->is_incomplete |= label->key_bytes > GO_LABEL_KEY_BYTES || label->value_bytes > GO_LABEL_VALUE_BYTES;
    s->count = at + 1;
    return 0;
}

__noinline int go_read_list(__u64 labels)
{
    struct go_labels_scratch *s = go_labels_scratch_get();
    struct go_string list; /* a slice begins like a string */

    if (!s)
        return 0;
    if (!go_read(&list, sizeof(list), labels)) {
        s->is_incomplete = 1;
        return 0;
    }
    if (list.bytes > GO_LABELS_MAX)
        s->is_incomplete = 1;
    for (int i = 0; i < GO_LABELS_MAX; i++) {
        if (i >= list.bytes)
            break;
        if (!go_read(s->pair, sizeof(s->pair), list.text + i * sizeof(s->pair))) {
            s->is_incomplete = 1;
            break;
        }
        go_put_label();
    }
    return 0;
}

__noinline int go_read_map(__u64 labels)
{
    struct go_labels_scratch *s = go_labels_scratch_get();
    struct go_map map;
    __u64 address;

    if (!s)
        return 0;
    if (!go_read(&address, 8, labels)) {
        s->is_incomplete = 1;
        return 0;
    }
    if (address == 0)
        return 0;
    if (!go_read(&map, sizeof(map), address)) {
        s->is_incomplete = 1;
        return 0;
    }
    if (map.count == 0)
        return 0;
    if (map.buckets_log2 || !go_read(&s->bucket, sizeof(s->bucket), map.buckets)) {
        s->is_incomplete = 1;
        return 0;
    }
    for (int i = 0; i < GO_LABELS_MAX; i++) {
        if (s->bucket.top[i] < GO_BUCKET_USED)
            continue;
        s->pair[0] = s->bucket.key[i];
        s->pair[1] = s->bucket.value[i];
        go_put_label();
    }
    return 0;
}

/* Address of the labels of the current goroutine; 0: no goroutine, or no labels. */
static __always_inline __u64 go_labels_find(const struct go_labels_layout *l)
{
    __u64 running, labels;
    bool is_known;

    running = go_running(l->thread_g, l->g_m, l->m_curg, &is_known);
    return running && go_read(&labels, 8, running + l->g_labels) ? labels : 0;
}

/* Writes the labels of the current thread's goroutine to go_labels_scratch. Returns 1; 0: there are none. */
__noinline int go_labels_of_current(__u32 pid)
{
    const struct go_labels_layout *layout = bpf_map_lookup_elem(&go_labels, &pid);
    struct go_labels_scratch *s = layout ? go_labels_scratch_get() : NULL;
    __u64 labels;

    if (!layout || !s)
        return 0;
    labels = go_labels_find(layout);
    if (labels == 0)
        return 0;
    s->count = s->is_incomplete = 0;
    if (layout->kind == GO_LABELS_LIST)
        go_read_list(labels);
    else
        go_read_map(labels);
    return 1;
}
