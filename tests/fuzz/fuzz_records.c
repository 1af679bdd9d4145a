/* A recording of event records: whatever the file holds, the lengths and strings of each returned record are valid,
 * and reading terminates. */
#include "signals/signals.h"
#include "sources/events/record_file.h"

#include "probes/event.h"
#include "probes/gpu_time.h"
#include "probes/process.h"
#include "probes/unwind/stack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t follow(const struct record_header *header)
{
    uint64_t sum = header->time_ns;

    if (header->size_bytes > RECORD_MAX_BYTES || !signals_check_record(header))
        abort();
    if (header->kind == RECORD_CPU_SAMPLE) {
        const struct stack_record *s = (const struct stack_record *)header;

        for (size_t i = 0; i < (size_t)s->kernel_frames + s->user_frames + s->stack_bytes / 8; i++)
            sum += s->data[i];
        sum += strlen(s->comm);
    } else if (header->kind == RECORD_EVENT) {
        sum += strlen(((const struct event_record *)header)->name);
    } else if (header->kind == RECORD_GPU_SUM) {
        const struct gpu_sum *s = (const struct gpu_sum *)header;

        if (strnlen((const char *)(s + 1), s->name_bytes) != s->name_bytes)
            abort();
    } else if (header->kind == RECORD_GPU_WINDOW) {
        sum += strlen(((const struct gpu_window *)header)->reason);
    } else if (header->kind == RECORD_PROCESS_MMAP) {
        const struct process_mmap *m = (const struct process_mmap *)header;

        sum += strlen(m->path);
        for (size_t i = 0; i < m->build_id_bytes; i++)
            sum += m->build_id[i];
    }
    return sum;
}

#define HELD_FROM_NS (UINT64_C(1) << 40) /* earlier than some records, later than others */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static volatile uint64_t sink;
    static struct batch *batch;
    struct record_reader *reader;
    FILE *file;
    int r;

    if (!batch && batch_new(1U << 20, signals_check_record, &batch) < 0)
        abort();
    file = size ? fmemopen((void *)(uintptr_t)data, size, "r") : NULL;
    if (!file)
        return 0;
    if (record_reader_new(file, &reader) < 0) {
        fclose(file);
        return 0;
    }
    batch_begin(batch, HELD_FROM_NS);
    while ((r = record_reader_next(reader, batch)) == 0) {
        if (batch_count(batch) == 0)
            abort();
        batch_end(batch, UINT64_MAX);
        for (size_t i = 0; i < batch_count(batch); i++)
            sink += follow(batch_get(batch, i));
        batch_begin(batch, HELD_FROM_NS);
    }
    if (r != -ENODATA && (r != -EBADMSG || !*record_reader_error(reader)))
        abort();
    batch_clear(batch);
    record_reader_free(reader);
    return 0;
}
