/* Request records as written by the BPF side on Linux 6.18 while tests/e2e/test_causes.py and tests/bpf/test_request.c
 * injected their causes, and the diagnosis of each. Without user stacks, whose names are not known here; kernel frames
 * are given by name, leaf first. */
#pragma once

#include "model/request.h"

#include "probes/request.h"

#include <sys/socket.h>
#include <sys/syscall.h>

#define CAPTURED_WAITS 3
#define CAPTURED_PARTS 5

struct captured_request {
    const char *line;
    struct request_record record;
    const char *kernel[CAPTURED_WAITS][REQUEST_KERNEL_FRAMES];
    struct request_part parts[CAPTURED_PARTS]; /* all of them, longest first */
    const char *cause;
};

#define ENTRY "do_syscall_64", "entry_SYSCALL_64_after_hwframe"

static const struct captured_request captured_requests[] = {
    {
        .line = "GET /cpu?ms=40 HTTP/1.1\r\n",
        .record =
            {.duration_ns = 114090850, .run_queue_ns = 73891640, .runtime_ns = 40046081, .flags = REQUEST_ACCOUNTED},
        .parts = {{REQUEST_PART_RUN_QUEUE, 73891640, "", ""}, {REQUEST_PART_CPU, 40199210, "", ""}},
        .cause = "73.9 ms of 114 ms: ready to run, waiting for a CPU",
    },
    {
        .line = "GET /cpu?0.03 HTTP/1.1\r\n",
        .record = {.duration_ns = 561070122,
                   .run_queue_ns = 529735419,
                   .throttled_ns = 491159724,
                   .runtime_ns = 31249607,
                   .stolen_ns = 12849,
                   .flags = REQUEST_ACCOUNTED},
        .parts = {{REQUEST_PART_RUN_QUEUE, 491159724, "its cgroup's CPU quota was used up", ""},
                  {REQUEST_PART_RUN_QUEUE, 38575695, "", ""},
                  {REQUEST_PART_CPU, 31321854, "", ""},
                  {REQUEST_PART_STEAL, 12849, "", ""}},
        .cause = "530 ms of 561 ms: ready to run, waiting for a CPU (its cgroup's CPU quota was used up)",
    },
    {
        .line = "GET /cpu?0.1 HTTP/1.1\r\n",
        .record = {.duration_ns = 250814627,
                   .run_queue_ns = 150184726,
                   .runtime_ns = 100296624,
                   .stolen_ns = 43644,
                   .flags = REQUEST_ACCOUNTED},
        .parts = {{REQUEST_PART_RUN_QUEUE, 150184726, "", ""},
                  {REQUEST_PART_CPU, 100586257, "", ""},
                  {REQUEST_PART_STEAL, 43644, "", ""}},
        .cause = "150 ms of 251 ms: ready to run, waiting for a CPU",
    },
    {
        .line = "GET /naps?ms=40 HTTP/1.1\r\n",
        .record =
            {.duration_ns = 57167141,
             .run_queue_ns = 6814271,
             .runtime_ns = 159397,
             .flags = REQUEST_ACCOUNTED,
             .wait_count = 1,
             .waits = {{.duration_ns = 50122347, .longest_ns = 40062565, .syscall = SYS_clock_nanosleep, .count = 2}}},
        .kernel = {{"hrtimer_nanosleep", "common_nsleep", "__x64_sys_clock_nanosleep", ENTRY}},
        .parts = {{REQUEST_PART_SLEEP, 50122347, "clock_nanosleep, 2 times: hrtimer_nanosleep < common_nsleep", ""},
                  {REQUEST_PART_RUN_QUEUE, 6814271, "", ""},
                  {REQUEST_PART_CPU, 230523, "", ""}},
        .cause =
            "50.1 ms of 57.2 ms: asleep because the program asked to sleep (clock_nanosleep, 2 times: hrtimer_nanosleep < common_nsleep)",
    },
    {
        .line = "GET /mutex?/tmp/lock HTTP/1.1\r\n",
        .record = {.duration_ns = 176595459,
                   .run_queue_ns = 36003,
                   .runtime_ns = 301938,
                   .flags = REQUEST_ACCOUNTED,
                   .wait_count = 1,
                   .waits = {{.duration_ns = 175854108, .longest_ns = 175854108, .syscall = SYS_futex, .count = 1}}},
        .kernel = {{"futex_do_wait", "__futex_wait", "futex_wait", "do_futex", "__x64_sys_futex", ENTRY}},
        .parts = {{REQUEST_PART_LOCK, 175854108, "futex: futex_do_wait < __futex_wait < futex_wait < do_futex", ""},
                  {REQUEST_PART_CPU, 705348, "", ""},
                  {REQUEST_PART_RUN_QUEUE, 36003, "", ""}},
        .cause =
            "176 ms of 177 ms: waiting for a lock or another thread (futex: futex_do_wait < __futex_wait < futex_wait < do_futex)",
    },
    {
        .line = "GET /flock?/tmp/lock HTTP/1.1\r\n",
        .record = {.duration_ns = 168290303,
                   .run_queue_ns = 3038874,
                   .runtime_ns = 523438,
                   .flags = REQUEST_ACCOUNTED,
                   .wait_count = 1,
                   .waits = {{.duration_ns = 164572771,
                              .longest_ns = 164572771,
                              .syscall = SYS_flock,
                              .count = 1,
                              .object = REQUEST_OBJECT_FILE,
                              .file_system = "ext4",
                              .file_name = "lock"}}},
        .kernel = {{"locks_lock_inode_wait", "__do_sys_flock", ENTRY}},
        .parts = {{REQUEST_PART_LOCK, 164572771, "flock of lock (ext4): locks_lock_inode_wait < __do_sys_flock", ""},
                  {REQUEST_PART_RUN_QUEUE, 3038874, "", ""},
                  {REQUEST_PART_CPU, 678658, "", ""}},
        .cause =
            "165 ms of 168 ms: waiting for a lock or another thread (flock of lock (ext4): locks_lock_inode_wait < __do_sys_flock)",
    },
    {
        .line = "GET /file HTTP/1.1\r\n",
        .record = {.duration_ns = 253032341,
                   .run_queue_ns = 1322294,
                   .runtime_ns = 659049,
                   .flags = REQUEST_ACCOUNTED,
                   .wait_count = 1,
                   .waits = {{.duration_ns = 250897500,
                              .longest_ns = 157629809,
                              .syscall = SYS_pread64,
                              .count = 3,
                              .object = REQUEST_OBJECT_FILE,
                              .state = REQUEST_WAIT_UNINTERRUPTIBLE | REQUEST_WAIT_IO,
                              .file_system = "ext4",
                              .file_name = "file"}}},
        .kernel = {{"folio_wait_bit_common", "filemap_get_pages", "filemap_read", "vfs_read", "__x64_sys_pread64",
                    ENTRY}},
        .parts =
            {{REQUEST_PART_DISK, 250897500,
              "pread64 of file (ext4), 3 times: folio_wait_bit_common < filemap_get_pages < filemap_read < vfs_read",
              ""},
             {REQUEST_PART_RUN_QUEUE, 1322294, "", ""},
             {REQUEST_PART_CPU, 812547, "", ""}},
        .cause =
            "251 ms of 253 ms: waiting for a file system or block device (pread64 of file (ext4), 3 times: folio_wait_bit_common < "
            "filemap_get_pages < filemap_read < vfs_read)",
    },
    {
        .line = "GET /file HTTP/1.1\r\n",
        .record = {.duration_ns = 158511108,
                   .run_queue_ns = 89482790,
                   .runtime_ns = 467434,
                   .flags = REQUEST_ACCOUNTED,
                   .wait_count = 1,
                   .waits = {{.duration_ns = 68446915,
                              .longest_ns = 68379845,
                              .syscall = SYS_sendfile,
                              .count = 2,
                              .object = REQUEST_OBJECT_CLIENT,
                              .state = REQUEST_WAIT_UNINTERRUPTIBLE | REQUEST_WAIT_IO}}},
        .kernel = {{"folio_wait_bit_common", "filemap_get_pages", "filemap_splice_read", "splice_direct_to_actor",
                    "do_splice_direct", "do_sendfile", "__x64_sys_sendfile64", ENTRY}},
        .parts =
            {{REQUEST_PART_RUN_QUEUE, 89482790, "", ""},
             {REQUEST_PART_DISK, 68446915,
              "sendfile on the client's connection, 2 times: folio_wait_bit_common < filemap_get_pages < filemap_splice_read < "
              "splice_direct_to_actor",
              ""},
             {REQUEST_PART_CPU, 581403, "", ""}},
        .cause = "89.5 ms of 159 ms: ready to run, waiting for a CPU",
    },
    {
        .line = "GET /mapped?/tmp/disk/file HTTP/1.1\r\n",
        .record = {.duration_ns = 253869064,
                   .run_queue_ns = 41692,
                   .runtime_ns = 1739423,
                   .flags = REQUEST_ACCOUNTED,
                   .wait_count = 1,
                   .waits = {{.duration_ns = 252077573,
                              .longest_ns = 252077573,
                              .syscall = -1,
                              .count = 1,
                              .state = REQUEST_WAIT_UNINTERRUPTIBLE | REQUEST_WAIT_IO}}},
        .kernel = {{"folio_wait_bit_common", "filemap_fault", "__do_fault", "do_fault", "__handle_mm_fault",
                    "handle_mm_fault", "exc_page_fault", "asm_exc_page_fault"}},
        .parts = {{REQUEST_PART_DISK, 252077573,
                   "page fault: folio_wait_bit_common < filemap_fault < __do_fault < do_fault", ""},
                  {REQUEST_PART_CPU, 1749799, "", ""},
                  {REQUEST_PART_RUN_QUEUE, 41692, "", ""}},
        .cause =
            "252 ms of 254 ms: waiting for a file system or block device (page fault: folio_wait_bit_common < filemap_fault < __do_fault < "
            "do_fault)",
    },
    {
        .line = "GET /synced?/tmp/disk/file HTTP/1.1\r\n",
        .record = {.duration_ns = 360459974,
                   .run_queue_ns = 43759988,
                   .runtime_ns = 4390311,
                   .flags = REQUEST_ACCOUNTED,
                   .wait_count = 1,
                   .waits = {{.duration_ns = 311737416,
                              .longest_ns = 303911052,
                              .syscall = SYS_fsync,
                              .count = 3,
                              .object = REQUEST_OBJECT_FILE,
                              .state = REQUEST_WAIT_UNINTERRUPTIBLE | REQUEST_WAIT_IO,
                              .file_system = "ext4",
                              .file_name = "file"}}},
        .kernel = {{"folio_wait_bit", "folio_wait_writeback", "__filemap_fdatawait_range", "file_write_and_wait_range",
                    "generic_buffers_fsync_noflush", "ext4_fsync_nojournal.constprop.0", "ext4_sync_file", "do_fsync",
                    "__x64_sys_fsync", ENTRY}},
        .parts = {{REQUEST_PART_DISK, 311737416,
                   "fsync of file (ext4), 3 times: folio_wait_bit < folio_wait_writeback < __filemap_fdatawait_range < "
                   "file_write_and_wait_range",
                   ""},
                  {REQUEST_PART_RUN_QUEUE, 43759988, "", ""},
                  {REQUEST_PART_CPU, 4962570, "", ""}},
        .cause =
            "312 ms of 360 ms: waiting for a file system or block device (fsync of file (ext4), 3 times: folio_wait_bit < "
            "folio_wait_writeback < __filemap_fdatawait_range < file_write_and_wait_range)",
    },
    {
        .line = "GET /downstream?46165 HTTP/1.1\r\n",
        .record = {.duration_ns = 160725036,
                   .run_queue_ns = 169422,
                   .runtime_ns = 783854,
                   .flags = REQUEST_ACCOUNTED,
                   .wait_count = 1,
                   .waits = {{.duration_ns = 159260060,
                              .longest_ns = 159260060,
                              .syscall = SYS_recvfrom,
                              .count = 1,
                              .object = REQUEST_OBJECT_SOCKET,
                              .peer_family = AF_INET,
                              .peer_port = 46165,
                              .peer_address = {127, 0, 0, 1}}}},
        .kernel = {{"wait_woken", "sk_wait_data", "tcp_recvmsg_locked", "tcp_recvmsg", "sock_recvmsg", "__sys_recvfrom",
                    "__x64_sys_recvfrom", ENTRY}},
        .parts =
            {{REQUEST_PART_DOWNSTREAM, 159260060,
              "recvfrom on the connection to 127.0.0.1:46165: wait_woken < sk_wait_data < tcp_recvmsg_locked < tcp_recvmsg",
              ""},
             {REQUEST_PART_CPU, 1295554, "", ""},
             {REQUEST_PART_RUN_QUEUE, 169422, "", ""}},
        .cause =
            "159 ms of 161 ms: waiting for another service that this request called (recvfrom on the connection to 127.0.0.1:46165: "
            "wait_woken < sk_wait_data < tcp_recvmsg_locked < tcp_recvmsg)",
    },
    {
        .line = "GET /ok HTTP/1.1\r\n", /* through nginx: epoll_wait then, which not every machine has */
        .record = {.duration_ns = 159066142,
                   .run_queue_ns = 214809,
                   .other_requests_ns = 32057,
                   .runtime_ns = 253077,
                   .flags = REQUEST_ACCOUNTED,
                   .wait_count = 1,
                   .waits = {{.duration_ns = 158561253,
                              .longest_ns = 158561253,
                              .syscall = SYS_epoll_pwait,
                              .count = 1,
                              .object = REQUEST_OBJECT_SOCKET,
                              .peer_family = AF_INET,
                              .peer_port = 34469,
                              .peer_address = {127, 0, 0, 1}}}},
        .parts = {{REQUEST_PART_DOWNSTREAM, 158561253, "epoll_pwait on the connection to 127.0.0.1:34469", ""},
                  {REQUEST_PART_CPU, 258023, "", ""},
                  {REQUEST_PART_RUN_QUEUE, 214809, "", ""},
                  {REQUEST_PART_OTHER_REQUESTS, 32057, "the same thread served others meanwhile", ""}},
        .cause =
            "159 ms of 159 ms: waiting for another service that this request called (epoll_pwait on the connection to 127.0.0.1:34469)",
    },
    {
        .line = "GET /large HTTP/1.1\r\n",
        .record = {.duration_ns = 104273187,
                   .run_queue_ns = 11876251,
                   .other_requests_ns = 387718,
                   .runtime_ns = 6073438,
                   .flags = REQUEST_ACCOUNTED,
                   .wait_count = 1,
                   .waits = {{.duration_ns = 85299056,
                              .longest_ns = 46451435,
                              .syscall = SYS_epoll_pwait,
                              .count = 14,
                              .object = REQUEST_OBJECT_CLIENT}}},
        .parts = {{REQUEST_PART_NETWORK, 85299056, "epoll_pwait on the client's connection, 14 times", ""},
                  {REQUEST_PART_RUN_QUEUE, 11876251, "", ""},
                  {REQUEST_PART_CPU, 6710162, "", ""},
                  {REQUEST_PART_OTHER_REQUESTS, 387718, "the same thread served others meanwhile", ""}},
        .cause =
            "85.3 ms of 104 ms: waiting for the client or for network buffers (epoll_pwait on the client's connection, 14 times)",
    },
    {
        .line = "GET /pipe?ms=100 HTTP/1.1\r\n",
        .record = {.duration_ns = 100528876,
                   .run_queue_ns = 31586,
                   .runtime_ns = 351512,
                   .flags = REQUEST_ACCOUNTED,
                   .wait_count = 2,
                   .waits = {{.duration_ns = 100115512,
                              .longest_ns = 100115512,
                              .syscall = SYS_read,
                              .count = 1,
                              .object = REQUEST_OBJECT_PIPE},
                             {.duration_ns = 44036, .longest_ns = 44036, .syscall = SYS_futex, .count = 1}}},
        .kernel = {{"anon_pipe_read", "vfs_read", "ksys_read", ENTRY},
                   {"futex_do_wait", "__futex_wait", "futex_wait", "do_futex", "__x64_sys_futex", ENTRY}},
        .parts = {{REQUEST_PART_OTHER, 100115512, "read on a pipe: anon_pipe_read < vfs_read < ksys_read", ""},
                  {REQUEST_PART_CPU, 337742, "", ""},
                  {REQUEST_PART_LOCK, 44036, "futex: futex_do_wait < __futex_wait < futex_wait < do_futex", ""},
                  {REQUEST_PART_RUN_QUEUE, 31586, "", ""}},
        .cause =
            "100 ms of 101 ms: waiting in a system call or fault that is none of the above (read on a pipe: anon_pipe_read < vfs_read < ksys_read)",
    },
    {
        .line = "GET /sleep?ms=300 HTTP/1.1\r\n", /* its server was stopped and continued */
        .record = {.duration_ns = 300897576,
                   .run_queue_ns = 676556,
                   .runtime_ns = 339574,
                   .flags = REQUEST_ACCOUNTED,
                   .wait_count = 3,
                   .waits =
                       {{.duration_ns = 3743029, .longest_ns = 3743029, .syscall = SYS_clock_nanosleep, .count = 1},
                        {.duration_ns = 81591889,
                         .longest_ns = 81591889,
                         .syscall = -1,
                         .count = 1,
                         .state = REQUEST_WAIT_STOPPED},
                        {.duration_ns = 214539668,
                         .longest_ns = 214539668,
                         .syscall = SYS_restart_syscall,
                         .count = 1}}},
        .kernel = {{"hrtimer_nanosleep", "common_nsleep", "__x64_sys_clock_nanosleep", ENTRY},
                   {"do_signal_stop", "get_signal", "arch_do_signal_or_restart", "exit_to_user_mode_loop", ENTRY},
                   {ENTRY}},
        .parts =
            {{REQUEST_PART_OTHER, 214539668, "restart_syscall", ""},
             {REQUEST_PART_OTHER, 81591889,
              "stopped by a signal, a debugger or a freezer: do_signal_stop < get_signal < arch_do_signal_or_restart < exit_to_user_mode_loop",
              ""},
             {REQUEST_PART_SLEEP, 3743029, "clock_nanosleep: hrtimer_nanosleep < common_nsleep", ""},
             {REQUEST_PART_RUN_QUEUE, 676556, "", ""},
             {REQUEST_PART_CPU, 346434, "", ""}},
        .cause = "296 ms of 301 ms: waiting in a system call or fault that is none of the above (restart_syscall)",
    },
    {
        .line = "GET /sleep?ms=40 HTTP/1.1\r\n", /* from a thread pool */
        .record =
            {.duration_ns = 43231683, .unattributed_ns = 43135981, .runtime_ns = 118086, .flags = REQUEST_HANDED_OVER},
        .parts = {{REQUEST_PART_UNATTRIBUTED, 43135981, "in the hands of another thread", ""},
                  {REQUEST_PART_CPU, 95702, "", ""}},
        .cause = "43.1 ms of 43.2 ms: not known (in the hands of another thread)",
    },
};
