/* Labels of goroutines (Go's runtime/pprof: Do, SetGoroutineLabels), as a program of Go keeps them: a thread's variable
 * leads to the goroutine at hand (a `g`), that to its thread (an `m`), and that to the goroutine whose code it runs,
 * which is another one while the runtime works on a stack of its own. Where these fields are differs with Go's version:
 * user space knows it from the file (src/resolve/elf/go_labels.c); go_labels.bpf.h goes that way when the thread is
 * sampled. */
#pragma once

enum go_labels_kind {
    GO_LABELS_NONE,    /* no program of Go's */
    GO_LABELS_UNKNOWN, /* one of a version, or linked in a way, that is not known: nothing is read */
    GO_LABELS_MAP,     /* up to Go 1.23: *map[string]string, the hash map of buckets */
    GO_LABELS_LIST,    /* since Go 1.24: a slice of pairs of strings */
};

struct go_labels_layout {
    __s64 thread_g;              /* from the thread pointer: where the address of its g is */
    __u16 kind;                  /* enum go_labels_kind */
    __u16 g_m, g_labels, m_curg; /* offsets of fields */
};

#define GO_LABELS_MAX           8 /* what one bucket of a map holds */
#define GO_LABEL_KEY_BYTES      56
#define GO_LABEL_VALUE_BYTES    128
#define GO_LABELS_PROCESSES_MAX 1024

/* On the wire: behind a sample's frames. Texts are Go's: UTF-8 by habit only, without an end. */
struct go_label {
    __u32 key_bytes, value_bytes; /* in the program; more than there is room for: it is cut */
    __u8 key[GO_LABEL_KEY_BYTES], value[GO_LABEL_VALUE_BYTES];
};
_Static_assert(sizeof(struct go_label) == 192, "wire format");
