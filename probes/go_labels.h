/* Labels of goroutines (Go's runtime/pprof: Do, SetGoroutineLabels). A thread-local variable points to the current
 * goroutine (a `g`), which points to its thread (an `m`), which points to the goroutine whose code it runs: a
 * different one while the runtime works on a stack of its own. The field offsets depend on Go's version; user space
 * reads them from the file (src/resolve/elf/go_labels.c). go_labels.bpf.h follows the pointers when the thread is
 * sampled. */
#pragma once

enum go_labels_kind {
    GO_LABELS_NONE,    /* not a Go program */
    GO_LABELS_UNKNOWN, /* an unknown version or way of linking: nothing is read */
    GO_LABELS_MAP,     /* up to Go 1.23: *map[string]string, the hash map of buckets */
    GO_LABELS_LIST,    /* since Go 1.24: a slice of string pairs */
};

#define GO_WAITS_MAX 48

struct go_labels_layout {
    __s64 thread_g;              /* offset from the thread pointer to the address of g */
    __u16 kind;                  /* enum go_labels_kind */
    __u16 g_m, g_labels, m_curg; /* field offsets */
    __u16 g_status;              /* of g's status, id and reason to wait (struct go_state); 0: unknown */
    __u8 waits[GO_WAITS_MAX];    /* enum recorder_task_state by the runtime's reason to wait */
    __u16 g_sched;               /* of g's saved stack pointer */
    __u16 g_creator;             /* of the id of the goroutine that created g; 0: unknown */
    __u8 reserved[2];
};
_Static_assert(sizeof(struct go_labels_layout) == 72, "table format");

#define GO_LABELS_MAX           8 /* the size of a map bucket */
#define GO_LABEL_KEY_BYTES      56
#define GO_LABEL_VALUE_BYTES    128
#define GO_LABELS_PROCESSES_MAX 1024

/* In a record, after a sample's frames. Strings are Go's: conventionally UTF-8, not terminated. */
struct go_label {
    __u32 key_bytes, value_bytes; /* length in the program; longer than the array: truncated */
    __u8 key[GO_LABEL_KEY_BYTES], value[GO_LABEL_VALUE_BYTES];
};
_Static_assert(sizeof(struct go_label) == 192, "record format");
