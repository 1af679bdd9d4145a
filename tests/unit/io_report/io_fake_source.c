/* Tables of the I/O source; see io_fake_source.h. */
#include "io_fake_source.h"

#include "sources/io/io.h"
#include "sources/io/io_uses.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENTRIES_MAX 256

static struct {
    struct io_key key;
    struct io_counters counters;
} counters[ENTRIES_MAX];
static struct {
    struct io_use_key key;
    struct io_use use;
} uses[ENTRIES_MAX];
static struct {
    struct io_error_key key;
    uint64_t count;
} errors[ENTRIES_MAX];
static struct {
    uint32_t process;
    struct io_command command;
} names[ENTRIES_MAX];
static size_t counter_count, use_count, error_count, name_count;

void fake_clear(void)
{
    counter_count = use_count = error_count = name_count = 0;
}

void fake_count_key(const struct io_key *key, uint64_t operations, uint64_t bytes)
{
    size_t i = 0;
    while (i < counter_count && memcmp(&counters[i].key, key, sizeof(*key)) != 0)
        i++;
    assert(i < ENTRIES_MAX);
    if (i == counter_count) {
        counters[counter_count].key = *key;
        counters[counter_count++].counters = (struct io_counters){0};
    }
    counters[i].counters.durations[1] += operations;
    counters[i].counters.sum_ns += 1000 * operations;
    counters[i].counters.bytes += bytes;
}

void fake_count(uint32_t process, uint8_t operation, uint64_t file, uint64_t operations, uint64_t bytes)
{
    fake_count_key(
        &(struct io_key){
            .cgroup_id = FAKE_CGROUP, .mount = FAKE_MOUNT, .file = file, .process = process, .operation = operation},
        operations, bytes);
}

void fake_use(const char *command, uint32_t process, uint8_t operation, uint64_t file, const struct io_use *use)
{
    assert(use_count < ENTRIES_MAX);
    uses[use_count].key = (struct io_use_key){
        .cgroup_id = FAKE_CGROUP, .mount = file ? FAKE_MOUNT : IO_NO_MOUNT, .file = file, .operation = operation};
    snprintf(uses[use_count].key.command, IO_COMMAND_BYTES, "%s", command);
    uses[use_count].use = *use;
    uses[use_count++].use.process = process;
}

void fake_fail(uint32_t process, uint8_t operation, uint32_t error, uint64_t count)
{
    assert(error_count < ENTRIES_MAX);
    errors[error_count].key = (struct io_error_key){
        .key = {.cgroup_id = FAKE_CGROUP, .mount = FAKE_MOUNT, .file = 1, .process = process, .operation = operation},
        .error = error};
    errors[error_count++].count = count;
}

void fake_name(uint32_t process, const char *command)
{
    assert(name_count < ENTRIES_MAX);
    names[name_count].process = process;
    snprintf(names[name_count++].command.text, IO_COMMAND_BYTES, "%s", command);
}

size_t fake_counters(void)
{
    return counter_count;
}

uint32_t fake_ended_process(void)
{
    const pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    assert(pid > 0 && waitpid(pid, NULL, 0) == pid);
    return (uint32_t)pid;
}

/* ---- in place of sources/io ---- */

static void take_out(size_t i)
{
    counters[i] = counters[--counter_count];
}

int io_source_read(void *io_source, const struct io_reader *reader)
{
    for (size_t i = counter_count; i-- > 0;) {
        const struct io_key key = counters[i].key;
        const struct io_counters sums = counters[i].counters;
        const bool is_final = reader->is_final(reader->context, &key, &sums);
        if (is_final)
            take_out(i);
        reader->take(reader->context, &key, &sums, is_final);
    }
    return io_source_read_errors(io_source, reader);
}

int io_source_take_ended(void *io_source, const struct io_reader *reader,
                         bool (*is_ended)(void *context, uint32_t process))
{
    (void)io_source;
    for (size_t i = counter_count; i-- > 0;) {
        const struct io_key key = counters[i].key;
        const struct io_counters sums = counters[i].counters;
        if (!key.process || !is_ended(reader->context, key.process))
            continue;
        take_out(i);
        reader->take(reader->context, &key, &sums, true);
    }
    return 0;
}

int io_source_read_errors(void *io_source, const struct io_reader *reader)
{
    (void)io_source;
    for (; error_count > 0; error_count--)
        reader->take_error(reader->context, &errors[error_count - 1].key, errors[error_count - 1].count, true);
    return 0;
}

int io_uses_take(void *io_source, const struct io_use_reader *reader)
{
    (void)io_source;
    for (; use_count > 0; use_count--)
        reader->take(reader->context, &uses[use_count - 1].key, &uses[use_count - 1].use);
    return 0;
}

size_t io_source_counters_max(void *io_source)
{
    (void)io_source;
    return ENTRIES_MAX;
}

bool io_source_counts_misses(void *io_source)
{
    (void)io_source;
    return false;
}

static bool put_name(const char *text, struct io_name *ret)
{
    *ret = (struct io_name){.size = (__u32)strlen(text) + 1, .type = "ext4"};
    memcpy(ret->names, text, ret->size);
    return true;
}

bool io_source_mount(void *io_source, uint64_t id, struct io_name *ret)
{
    (void)io_source;
    return id == FAKE_MOUNT && put_name("srv", ret);
}

bool io_source_cgroup(void *io_source, uint64_t id, struct io_name *ret)
{
    (void)io_source;
    return id == FAKE_CGROUP && put_name("app.service", ret);
}

bool io_source_file(void *io_source, const struct io_file_key *key, struct io_name *ret)
{
    char name[32];
    (void)io_source;
    snprintf(name, sizeof(name), "file%llu", (unsigned long long)key->file);
    return put_name(name, ret);
}

bool io_source_command(void *io_source, uint32_t process, struct io_command *ret)
{
    (void)io_source;
    for (size_t i = 0; i < name_count; i++) {
        if (names[i].process != process)
            continue;
        *ret = names[i].command;
        return true;
    }
    return false;
}

bool io_failed_path(void *io_source, __u64 hash, struct io_path *ret)
{
    (void)io_source, (void)hash, (void)ret;
    return false;
}

void io_source_forget_mount(void *io_source, uint64_t id)
{
    (void)io_source, (void)id;
}

void io_source_forget_cgroup(void *io_source, uint64_t id)
{
    (void)io_source, (void)id;
}

void io_source_sweep(void *io_source, uint64_t now_ns)
{
    (void)io_source, (void)now_ns;
}
