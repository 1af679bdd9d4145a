/* The memory of a process with CPython, of which a thread sleeps: whatever it holds, the walk ends, and the record of
 * the thread's stack stays valid. The input: a struct python_layout, the thread pointer, and pages. */
#include "base/buf.h"
#include "resolve/interpreter/python_sleeping.h"
#include "resolve/process/processes.h"
#include "signals/stack_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096
#define PAGES_MAX  16

static uint8_t pages[PAGES_MAX][PAGE_BYTES];

/* Every address of user space leads to one of the pages. */
static int read_page(struct processes *processes, const struct process *process, uint64_t address, size_t size,
                     struct buf *to)
{
    (void)processes, (void)process;
    if (address >> 47)
        return -EFAULT;
    return buf_append(to, pages[address / PAGE_BYTES % PAGES_MAX], size);
}

/* What is not sound is refused by its taker; all of it must be there. */
static int take_code(void *context, const struct record_header *code)
{
    const struct python_code *c = (const struct python_code *)code;
    (void)context;
    if (c->h.size_bytes > sizeof(*c) + PYTHON_LINES_BYTES || c->h.size_bytes - sizeof(*c) < c->lines_bytes)
        abort();
    return python_code_is_sound(c) ? 0 : -EBADMSG;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct process process = {.pid = 1};
    static union {
        struct stack_record record;
        uint8_t bytes[RECORD_MAX_BYTES];
    } room;
    struct python_layout layout;
    struct sleeping_thread thread = {.read = read_page, .process = &process};
    if (size < sizeof(layout) + sizeof(thread.pointer))
        return 0;
    memcpy(&layout, data, sizeof(layout));
    layout.lines %= PYTHON_LINES_COUNT; /* of a table, not of the process */
    memcpy(&thread.pointer, data + sizeof(layout), sizeof(thread.pointer));
    data += sizeof(layout) + sizeof(thread.pointer);
    size -= sizeof(layout) + sizeof(thread.pointer);
    memset(pages, 0, sizeof(pages));
    memcpy(pages, data, size < sizeof(pages) ? size : sizeof(pages));
    room.record =
        (struct stack_record){.h = {.size_bytes = sizeof(room.record), .kind = RECORD_THREAD_STACK, .pid = 1}};
    if (python_sleeping_append(&layout, &thread, take_code, NULL, &room.record) == 0 &&
        !stack_record_check(&room.record.h))
        abort();
    return 0;
}
