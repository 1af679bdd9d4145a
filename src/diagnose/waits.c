/* Derives the reason of a wait from the system call, its object, the task's state and the kernel stack. The stack is
 * used last: kernel function names change between versions, system call numbers do not. */
#include "diagnose/waits.h"

#include "diagnose/stack_text.h"
#include "diagnose/syscalls.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool on_stack(const struct frame *frames, size_t count, const char *start)
{
    for (size_t i = 0; i < count; i++)
        if (starts_with(frames[i].function, start))
            return true;
    return false;
}

static bool is_kernel_lock(const struct frame *frames, size_t count)
{
    return on_stack(frames, count, "rwsem_down") || on_stack(frames, count, "__mutex_lock") ||
           on_stack(frames, count, "percpu_rwsem") || on_stack(frames, count, "__percpu_down") ||
           on_stack(frames, count, "rt_mutex") || on_stack(frames, count, "lock_mm_and_find_vma") ||
           on_stack(frames, count, "__break_lease");
}

/* On older kernels, and with the cgroup v2 freezer, only a function on the stack identifies a frozen task. */
static bool is_stopped(const struct request_wait *w, const struct wait_frames *frames)
{
    return w->state & REQUEST_WAIT_STOPPED || on_stack(frames->kernel, frames->kernel_count, "__refrigerator") ||
           on_stack(frames->kernel, frames->kernel_count, "do_freezer_trap");
}

static enum request_part_kind kind_of_call(const struct request_wait *w, const struct frame *frames, size_t count)
{
    switch (syscall_reason(w->syscall)) {
    case SYSCALL_REASON_LOCK:
        return REQUEST_PART_LOCK;
    case SYSCALL_REASON_SLEEP:
        return REQUEST_PART_SLEEP;
    case SYSCALL_REASON_DISK:
        if (on_stack(frames, count, "fifo_open")) /* waits for a process to open the other end */
            return REQUEST_PART_OTHER;
        return is_kernel_lock(frames, count) && !(w->state & REQUEST_WAIT_IO) ? REQUEST_PART_LOCK : REQUEST_PART_DISK;
    case SYSCALL_REASON_NONE:
        break;
    }
    if (w->state & REQUEST_WAIT_IO)
        return REQUEST_PART_DISK;
    if (is_kernel_lock(frames, count))
        return REQUEST_PART_LOCK;
    if (on_stack(frames, count, "timerfd_read"))
        return REQUEST_PART_SLEEP;
    /* Uninterruptible without a lock: page faults without a stack, and file system journals that do not count as I/O.
     */
    if (w->state & REQUEST_WAIT_UNINTERRUPTIBLE &&
        (on_stack(frames, count, "jbd2") || on_stack(frames, count, "xfs_") || on_stack(frames, count, "btrfs_") ||
         on_stack(frames, count, "blk_")))
        return REQUEST_PART_DISK;
    return REQUEST_PART_OTHER;
}

enum request_part_kind wait_kind(const struct request_wait *w, const struct wait_frames *frames)
{
    if (is_stopped(w, frames))
        return REQUEST_PART_OTHER;
    if (syscall_reason(w->syscall) == SYSCALL_REASON_LOCK)
        return REQUEST_PART_LOCK; /* flock has a file but does not wait for a disk */
    if (w->state & REQUEST_WAIT_IO)
        return REQUEST_PART_DISK; /* also sendfile to the client, which waits for the file */
    switch (w->object) {
    case REQUEST_OBJECT_CLIENT:
        return REQUEST_PART_NETWORK;
    case REQUEST_OBJECT_SOCKET:
    case REQUEST_OBJECT_UNIX:
        return REQUEST_PART_DOWNSTREAM;
    case REQUEST_OBJECT_FILE:
        return REQUEST_PART_DISK;
    case REQUEST_OBJECT_EVENT_LOOP:
        return REQUEST_PART_UNATTRIBUTED;
    default:
        return kind_of_call(w, frames->kernel, frames->kernel_count);
    }
}

const char *wait_peer(unsigned family, const unsigned char *address, unsigned port, char *out, size_t size)
{
    char text[INET6_ADDRSTRLEN] = "";
    out[0] = 0;
    if (family == AF_INET && inet_ntop(AF_INET, address, text, sizeof(text)))
        snprintf(out, size, "%s:%u", text, port);
    else if (family == AF_INET6 && inet_ntop(AF_INET6, address, text, sizeof(text)))
        snprintf(out, size, "[%s]:%u", text, port);
    return out;
}

static void append(char *out, size_t size, const char *text)
{
    size_t used = strlen(out);
    snprintf(out + used, size - used, "%s", text);
}

/* File names are untrusted bytes: unprintable ones are shown as '?'. */
static void append_printable(char *out, size_t size, const char *text)
{
    for (size_t used = strlen(out); *text && used + 1 < size; text++, used++) {
        out[used] = *text >= 0x20 && *text < 0x7f ? *text : '?';
        out[used + 1] = 0;
    }
}

static void append_object(const struct request_wait *w, char *out, size_t size)
{
    char peer[64];
    switch (w->object) {
    case REQUEST_OBJECT_CLIENT:
        append(out, size, " on the client's connection");
        break;
    case REQUEST_OBJECT_SOCKET:
        wait_peer(w->peer_family, w->peer_address, w->peer_port, peer, sizeof(peer));
        append(out, size,
               peer[0] ? " on the connection to " : " on a connection"); /* not connected yet, or disconnected */
        append(out, size, peer);
        break;
    case REQUEST_OBJECT_UNIX:
        append(out, size, " on a Unix socket");
        break;
    case REQUEST_OBJECT_PIPE:
        append(out, size, " on a pipe");
        break;
    case REQUEST_OBJECT_FILE:
        append(out, size, " of ");
        append_printable(out, size, w->file_name);
        append(out, size, " (");
        append_printable(out, size, w->file_system);
        append(out, size, ")");
        break;
    case REQUEST_OBJECT_EVENT_LOOP:
        append(out, size, " in the event loop, cause unknown");
        break;
    default:
        break;
    }
}

const char *wait_detail(const struct request_wait *w, const struct wait_frames *frames, char *out, size_t size)
{
    char call[32], times[32];
    syscall_name(w->syscall, call, sizeof(call));
    if (is_stopped(w, frames)) {
        snprintf(out, size, "stopped by a signal, a debugger or a freezer");
    } else {
        snprintf(out, size, "%s", call);
        append_object(w, out, size);
    }
    if (w->count > 1) {
        snprintf(times, sizeof(times), ", %u times", w->count);
        append(out, size, times);
    }
    stack_text_append_user(frames->user, frames->user_count, call, out, size);
    stack_text_append_kernel(frames->kernel, frames->kernel_count, out, size);
    return out;
}
