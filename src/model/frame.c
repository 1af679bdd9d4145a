/* Names of frame kinds; see frame.h. */
#include "model/frame.h"

const char *frame_kind_name(enum frame_kind kind)
{
    static const char *const names[FRAME_KIND_COUNT] = {
        [FRAME_NATIVE] = "native", [FRAME_KERNEL] = "kernel",       [FRAME_BPF] = "bpf",
        [FRAME_INTERPRETED] = "interpreted", [FRAME_TRUNCATED] = "truncated",
    };
    return kind < FRAME_KIND_COUNT ? names[kind] : "native";
}
