/* Callbacks that look up the names that the texts of a critical path need. */
#pragma once

#include "diagnose/code/code_tally.h"

#include <stddef.h>
#include <stdint.h>

#define PATH_THREAD_BYTES     17
#define PATH_PROCESS_BYTES    40
#define PATH_DESCRIPTOR_BYTES 64
#define PATH_PEER_BYTES       64
#define PATH_INTERRUPT_BYTES  32
#define PATH_CGROUP_BYTES     192
#define PATH_ASKED_BYTES      128

struct path_file_name {
    char name[PATH_DESCRIPTOR_BYTES]; /* "weights.bin"; "": it has none, or it is not known */
    char file_system[16];             /* "ext4"; "": the file is not known */
};

/* The place where a thread waited, and for how long within the given interval. */
struct path_wait {
    uint64_t ns;
    const char *where;  /* stack_text_append_user: " in handle() app.py:12, calling nanosleep"; "": not known */
    const char *kernel; /* stack_text_append_kernel: ": do_nanosleep < hrtimer_nanosleep"; "": likewise */
    const char *stack;  /* as of struct request_part */
};

struct path_names {
    void *context;
    /* The name of a thread; "" if it is not known. NULL: never known. */
    void (*thread)(void *context, uint32_t tid, char out[PATH_THREAD_BYTES]);
    /* The name of a process, also of one that has exited: "cc1"; of a server that was seen, with its port: "uvicorn
     * :8100"; "" if it is not known. NULL: never known. */
    void (*process)(void *context, uint32_t pid, char out[PATH_PROCESS_BYTES]);
    /* A file by its key (flight_recorder_file). NULL: never known. */
    void (*file)(void *context, uint64_t key, struct path_file_name *out);
    /* A block device, by its number in RECORDER_DISK ("nvme0n1"). Leaves `out` as it is if it is not known. NULL: never
     * known. */
    void (*device)(void *context, uint32_t device, char *out, size_t size);
    /* An interrupt or softirq, by its number (probes/interrupts.h): "NET_RX". NULL: never known. */
    void (*interrupt)(void *context, uint32_t number, char out[PATH_INTERRUPT_BYTES]);
    /* A cgroup with the lowest limit of its memory, by its ID: "/docker/4f5d (memory.high 128 MiB)". NULL: never known.
     */
    void (*cgroup)(void *context, uint64_t id, char out[PATH_CGROUP_BYTES]);
    /* Adds the places where CPU samples found the thread in [from, to) to `tally`. NULL: never known. */
    void (*samples)(void *context, uint32_t tid, uint64_t from_ns, uint64_t to_ns, struct code_tally *tally);
    /* The wait of the thread with the most time in [from, to). Strings are valid until the next call. False: not known.
     * NULL: never known. */
    bool (*wait)(void *context, uint32_t tid, uint64_t from_ns, uint64_t to_ns, struct path_wait *ret);
    /* Adds to `tally` the place where the thread began to wait in [from, to), if it did. NULL: never known. */
    void (*next_wait)(void *context, uint32_t tid, uint64_t from_ns, uint64_t to_ns, struct code_tally *tally);
    /* The last component of the name of the thread's descriptor `fd` ("weights.bin"); "": not known. NULL: never
     * known. */
    void (*descriptor)(void *context, uint32_t tid, uint64_t fd, char out[PATH_DESCRIPTOR_BYTES]);
    /* The address of the other end of a socket, by its cookie ("10.0.0.3:5432"); "": not known. NULL: never known. */
    void (*peer)(void *context, uint64_t cookie, char out[PATH_PEER_BYTES]);
    /* The call over HTTP/2 on the socket `cookie` in [from_ns, to_ns): "gRPC /package.Service/Method"; "": not known.
     * NULL: never known. */
    void (*asked)(void *context, uint64_t cookie, uint64_t from_ns, uint64_t to_ns, char out[PATH_ASKED_BYTES]);
};

/* Writes "CPU 1 ran NET_RX": `what` is RECORDER_INTERRUPT's object. Returns `out`. */
#define PATH_RAN_BYTES (32 + PATH_INTERRUPT_BYTES)
const char *path_names_interrupt(uint64_t what, const struct path_names *names, char out[PATH_RAN_BYTES]);
