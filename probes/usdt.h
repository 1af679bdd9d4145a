/* A firing of a USDT probe, as probes/usdt.bpf.c writes it to its ring. */
#pragma once

#define USDT_ARGUMENTS_MAX 12 /* libbpf's limit */
#define USDT_TEXT_BYTES    64

struct usdt_firing {
    __u64 time_ns; /* CLOCK_MONOTONIC */
    __u32 pid, tid;
    char process[16]; /* the thread's name */
    __u32 argument_count;
    __u32 unread;                     /* bit set of the arguments that could not be read */
    __u64 values[USDT_ARGUMENTS_MAX]; /* sign-extended */
    /* Per string argument: length with the NUL; 0: unreadable; USDT_TEXT_BYTES: exact fit or truncated. */
    __u8 text_bytes[USDT_ARGUMENTS_MAX];
    __u8 padding[4];
    char texts[USDT_ARGUMENTS_MAX][USDT_TEXT_BYTES];
};

_Static_assert(sizeof(struct usdt_firing) == 8 + 8 + 16 + 8 + 96 + 16 + 768, "record format");
