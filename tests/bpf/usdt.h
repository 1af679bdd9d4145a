/* What usdt.bpf.c writes down of the last probe that fired, for test_usdt.c. */
#pragma once

#define USDT_ARGUMENTS 12

struct usdt_firing {
    unsigned long long count;                  /* of all */
    unsigned long long process;                /* tgid */
    unsigned long long argument_count;         /* as libbpf read it in the note */
    unsigned long long values[USDT_ARGUMENTS]; /* sign-extended as the note says */
};
