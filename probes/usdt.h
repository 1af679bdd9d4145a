/* A firing of a native probe (USDT), as probes/usdt.bpf.c writes it to its ring. */
#pragma once

#define NATIVE_ARGUMENTS_MAX 12 /* as many as libbpf reads */
#define NATIVE_TEXT_BYTES    64

struct usdt_firing {
    __u64 time_ns; /* CLOCK_MONOTONIC */
    __u32 pid, tid;
    char process[16]; /* the thread's name */
    __u32 argument_count;
    __u32 unread;                       /* a bit for each argument that could not be read */
    __u64 values[NATIVE_ARGUMENTS_MAX]; /* extended with their sign */
    /* Of those that are texts: with the NUL, 0: could not be read, NATIVE_TEXT_BYTES: it fills all, or was
     * cut. */
    __u8 text_bytes[NATIVE_ARGUMENTS_MAX];
    __u8 padding[4];
    char texts[NATIVE_ARGUMENTS_MAX][NATIVE_TEXT_BYTES];
};

_Static_assert(sizeof(struct usdt_firing) == 8 + 8 + 16 + 8 + 96 + 16 + 768, "a wire record");
