/* Processes by PID; see io_processes.h. */
#include "io_report/io_processes.h"

#include "base/cleanup.h"
#include "base/script_name.h"
#include "sources/io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uthash.h>

struct seen_key {
    const void *group; /* NULL: whether it has ended */
    uint64_t process;
};

struct io_process_seen {
    struct seen_key key;
    bool has_ended, has_command;
    char command[IO_COMMAND_BYTES];
    UT_hash_handle hh;
};

void io_processes_clear(struct io_processes *p)
{
    struct io_process_seen *seen, *next;
    HASH_ITER (hh, p->seen, seen, next) {
        HASH_DEL(p->seen, seen);
        free(seen);
    }
}

/* NULL: out of memory. */
static struct io_process_seen *find_seen(struct io_processes *p, const void *group, uint32_t process, bool *ret_is_new)
{
    const struct seen_key key = {group, process};
    struct io_process_seen *seen = NULL;
    HASH_FIND(hh, p->seen, &key, sizeof(key), seen);
    *ret_is_new = !seen;
    if (seen || !(seen = calloc(1, sizeof(*seen))))
        return seen;
    seen->key = key;
    HASH_ADD(hh, p->seen, key, sizeof(seen->key), seen);
    return seen;
}

static bool is_gone(uint32_t process)
{
    return kill((pid_t)process, 0) < 0 && errno == ESRCH;
}

/* Returns the entry of a process. The first call of a round checks whether the process has ended. NULL: out of memory.
 */
static struct io_process_seen *find_process(struct io_processes *p, uint32_t process)
{
    bool is_new;
    struct io_process_seen *seen = find_seen(p, NULL, process, &is_new);
    if (seen && is_new)
        seen->has_ended = is_gone(process);
    return seen;
}

bool io_processes_have_ended(struct io_processes *p, uint32_t process)
{
    const struct io_process_seen *seen = find_process(p, process);
    return seen ? seen->has_ended : is_gone(process);
}

bool io_processes_is_first(struct io_processes *p, const void *group, uint32_t process)
{
    bool is_new;
    (void)find_seen(p, group, process, &is_new);
    return is_new;
}

static void read_command(const struct io_processes *p, uint32_t process, bool has_ended, char ret[IO_COMMAND_BYTES])
{
    char path[32];
    struct io_command command;
    ret[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%u/comm", process);
    FILE *f = has_ended ? NULL : fopen(path, "re");
    if (f && !fgets(ret, IO_COMMAND_BYTES, f))
        ret[0] = '\0';
    if (f)
        fclose(f);
    ret[strcspn(ret, "\n")] = '\0';
    if (!ret[0] && io_source_command(p->source, process, &command))
        memcpy(ret, command.text, IO_COMMAND_BYTES);
}

void io_processes_script(struct io_processes *p, uint32_t process, char out[IO_SCRIPT_BYTES])
{
    char path[32], arguments[4096];
    snprintf(path, sizeof(path), "/proc/%u/cmdline", process);
    _cleanup_close_ int fd = io_processes_have_ended(p, process) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd < 0 ? 0 : read(fd, arguments, sizeof(arguments));
    script_name(arguments, length > 0 ? (size_t)length : 0, out, IO_SCRIPT_BYTES);
    if (strcmp(out, io_processes_command(p, process)) == 0) /* a script that names its interpreter in its first line */
        out[0] = '\0';
}

const char *io_processes_command(struct io_processes *p, uint32_t process)
{
    struct io_process_seen *seen = find_process(p, process);
    if (!seen)
        return "";
    if (!seen->has_command)
        read_command(p, process, seen->has_ended, seen->command);
    seen->has_command = true;
    return seen->command;
}
