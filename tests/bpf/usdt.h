/* What usdt.bpf.c records of the last firing, for test_usdt.c. */
#pragma once

#define USDT_ARGUMENTS 12

struct usdt_firing {
    unsigned long long count;                  /* over all firings */
    unsigned long long process;                /* tgid */
    unsigned long long argument_count;         /* as libbpf read it from the note */
    unsigned long long values[USDT_ARGUMENTS]; /* sign-extended as the note says */
};
