/* TLS records, by their bytes. Part of request.bpf.c. */
#pragma once

#include "probes/request/request_state.bpf.h"

#define TLS_RECORD_HEAD    5  /* type, version, length */
#define TLS_RECORD_BYTES   32 /* that identify a record: its header and first ciphertext */
#define TLS_RECORD_TEXT    23 /* its type: application data */
#define TLS_RECORD_MORE    64 /* header, padding and so on: a record has at most so much more than its text */
#define TLS_RECORDS_A_CALL 4  /* most records examined in one send */

/* A hash of the record's beginning; 0: it has no text, or too few bytes. */
static __always_inline __u64 tls_record_hash(const void *buffer, __u32 bytes)
{
    __u64 part[TLS_RECORD_BYTES / 8], hash = 0;
    if (bytes < TLS_RECORD_BYTES || bpf_probe_read_user(part, sizeof(part), buffer) < 0)
        return 0;
    if ((part[0] & 0xffff) != (TLS_RECORD_TEXT | 3 << 8))
        return 0;
    for (int i = 0; i < TLS_RECORD_BYTES / 8; i++) {
        hash = (hash ^ part[i]) * 0x9e3779b97f4a7c15ULL;
        hash ^= hash >> 29;
    }
    return hash ?: 1;
}

/* Length of the record that begins there, with its header; 0: no record begins there. */
static __always_inline __u32 tls_record_length(const void *buffer)
{
    __u8 head[TLS_RECORD_HEAD];
    if (bpf_probe_read_user(head, sizeof(head), buffer) < 0 || head[0] < 20 || head[0] > 23 || head[1] != 3)
        return 0;
    return (head[3] << 8 | head[4]) + TLS_RECORD_HEAD;
}
