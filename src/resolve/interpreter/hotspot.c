/* HotSpot's frames: reads how a process's Java virtual machine lays out the structures that the walk needs
 * (hotspot_layout.h), registers the methods that the BPF side describes (struct hotspot_method), and names the frames
 * of samples as HotSpot itself does.
 *
 * A method's key is its process, its address and a check over its constant part, including the bytes of its names; when
 * its memory is reused for another class's method, the old name no longer matches. At the memory bound the least
 * recently used method is evicted; the BPF side emits it again with the next sample that refers to it.
 *
 * The layout is read once per process, not once per file, because it is in memory. A process can write anything there,
 * but can only corrupt its own stacks. */
#include "resolve/interpreter/interpreter.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "resolve/interpreter/code_registry.h"
#include "resolve/interpreter/hotspot_layout.h"
#include "resolve/interpreter/hotspot_lines.h"
#include "resolve/interpreter/hotspot_name.h"
#include "resolve/interpreter/interpreter_files.h"
#include "resolve/object/object_elf.h"
#include "resolve/process/processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define JVMS_MAX          512
#define TRIES_MAX         8 /* 13 s in all */
#define TRIES_AFTER_REMAP 4 /* granted again after the process's mappings changed */
#define FIRST_PAUSE_NS    200000000ull
#define DOUBLED_MAX       4

/* Description of a method or blob. The names end with a NUL. */
struct content_head {
    uint32_t lines_bytes;
    uint32_t file_at; /* offset of the file name */
    uint8_t number_bias;
};

/* The virtual machine of one process. */
struct jvm {
    uint32_t pid;
    uint64_t start_time_ns, exec_time_ns, object, bias;
    bool is_settled; /* final result: the layout is not read again */
    unsigned tries;
    uint64_t tried_version; /* process->mapping_version at the last try */
    uint64_t retry_ns;
    uint64_t used;                /* hotspots.uses at the last use, for LRU replacement */
    struct hotspot_layout layout; /* zeros: not read */
};

struct hotspots {
    read_memory read; /* NULL: process memory cannot be read */
    struct processes *processes;
    struct code_registry *methods; /* content: struct content_head, line table, method name, file name */
    struct interpreter_files *files;
    size_t jvm_count;
    uint64_t uses;
    struct jvm jvms[JVMS_MAX];
    uint64_t unsupported; /* virtual machines */
};

static void hotspots_free(void *self)
{
    struct hotspots *x = self;
    if (!x)
        return;
    code_registry_free(x->methods);
    interpreter_files_free(x->files);
    free(x);
}

static void hotspots_freep(struct hotspots **x)
{
    hotspots_free(*x);
}

static bool is_libjvm(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash ? slash + 1 : path, "libjvm.so") == 0;
}

static int read_file(const struct elf_file *elf, bool likely, void *ret)
{
    (void)likely;
    return hotspot_file_read(elf, ret);
}

static const struct interpreter_files_of files_of = {sizeof(struct hotspot_file), is_libjvm, read_file};

static int hotspots_open(size_t max_bytes, void **ret_self)
{
    _cleanup_(hotspots_freep) struct hotspots *x = calloc(1, sizeof(*x));
    if (!x)
        return -ENOMEM;
    int r = code_registry_new(max_bytes, &x->methods) ?: interpreter_files_new(&files_of, &x->files);
    if (r < 0)
        return r;
    *ret_self = take_ptr(x);
    return 0;
}

static void hotspots_read_by(void *self, read_memory read, struct processes *processes)
{
    struct hotspots *x = self;
    x->read = read;
    x->processes = processes;
}

/* ---- the virtual machine of a process ---- */

/* -EAGAIN until the code cache exists. Before that the library may not be relocated yet, and its tables may be
 * incomplete. */
static int check_has_code_cache(struct hotspots *x, const struct process *process, const struct hotspot_layout *layout)
{
    _cleanup_buf_ struct buf heaps = {0};
    uint64_t address = 0;
    int r = x->read(x->processes, process, layout->heaps, sizeof(address), &heaps);
    if (r == 0 && heaps.size == sizeof(address))
        memcpy(&address, heaps.data, sizeof(address));
    return r < 0 ? r : address ? 0 : -EAGAIN;
}

static int read_layout(struct hotspots *x, const struct process *process, const struct process_mapping *m,
                       const struct interpreter_file *file, struct hotspot_layout *ret)
{
    const struct hotspot_file *hotspot = file->contents;
    _cleanup_(elf_file_freep) struct elf_file *elf = NULL;
    _cleanup_buf_ struct buf data = {0};
    _cleanup_free_ void *texts = NULL;
    struct hotspot_image image = {.file = hotspot, .bias = file->bias};
    int r = x->read(x->processes, process, file->bias + hotspot->data_vaddr, hotspot->data_bytes, &data);
    if (r < 0)
        return r;
    if (data.size != hotspot->data_bytes)
        return -EBADMSG;
    r = object_open_elf(m->object, &elf);
    if (r == 0)
        r = hotspot_file_texts(elf, &texts, &image.text_bytes, &image.texts_vaddr);
    if (elf && elf_error(elf) == -ETIMEDOUT)
        object_unreadable(m->object); /* never block on its file system again */
    if (r < 0)
        return r;
    image.data = (const uint8_t *)data.data;
    image.texts = texts;
    r = hotspot_layout_read(&image, ret);
    return r < 0 ? r : check_has_code_cache(x, process, ret);
}

static struct jvm *jvm_of_process(struct hotspots *x, const struct process *process)
{
    for (size_t i = 0; i < x->jvm_count; i++) {
        struct jvm *m = &x->jvms[i];
        if (m->pid == process->pid && m->start_time_ns == process->start_time_ns &&
            m->exec_time_ns == process->exec_time_ns) {
            m->used = ++x->uses;
            return m;
        }
    }
    return NULL;
}

static struct jvm *new_jvm_slot(struct hotspots *x)
{
    if (x->jvm_count < JVMS_MAX)
        return &x->jvms[x->jvm_count++];
    struct jvm *least = x->jvms;
    for (size_t i = 1; i < JVMS_MAX; i++)
        if (x->jvms[i].used < least->used)
            least = &x->jvms[i];
    return least;
}

/* A process has one entry, for the first libjvm.so that it maps; if it maps another one in its place, the entry is
 * reset. */
static struct jvm *jvm_of(struct hotspots *x, const struct process *process, const struct interpreter_file *file)
{
    struct jvm *m = jvm_of_process(x, process);
    if (m && m->object == file->object && m->bias == file->bias)
        return m;
    if (!m)
        m = new_jvm_slot(x);
    *m = (struct jvm){.pid = process->pid,
                      .start_time_ns = process->start_time_ns,
                      .exec_time_ns = process->exec_time_ns,
                      .object = file->object,
                      .bias = file->bias,
                      .used = ++x->uses};
    return m;
}

/* Bounds the retries: a process may never become readable, and each try reads megabytes, so the pauses double. After
 * failures for temporary reasons, a change of the process's mappings grants a few more tries. */
static void try_read_layout(struct hotspots *x, struct jvm *jvm, const struct process *process,
                            const struct process_mapping *m, const struct interpreter_file *file)
{
    const uint64_t now_ns = clock_monotonic_ns();
    struct hotspot_layout layout;
    if (jvm->tries == TRIES_MAX && jvm->tried_version != process->mapping_version)
        jvm->tries -= TRIES_AFTER_REMAP;
    if (jvm->is_settled || jvm->tries == TRIES_MAX || now_ns < jvm->retry_ns)
        return;
    int r = read_layout(x, process, m, file, &layout);
    if (r == 0)
        jvm->layout = layout;
    jvm->retry_ns = now_ns + (FIRST_PAUSE_NS << (jvm->tries < DOUBLED_MAX ? jvm->tries : DOUBLED_MAX));
    jvm->tries++;
    jvm->tried_version = process->mapping_version;
    jvm->is_settled = r == 0 || r == -EPERM || r == -EACCES || (jvm->tries == TRIES_MAX && !object_error_is_passing(r));
    x->unsupported += r < 0 && jvm->is_settled;
}

static int hotspots_layout(void *self, const struct process *process, struct interpreter_layouts *ret)
{
    struct hotspots *x = self;
    struct interpreter_files_look look = {.reads = INTERPRETER_FILES_READS};
    for (size_t i = 0; x->read && i < process->mapping_count; i++) {
        const struct process_mapping *m = &process->mappings[i];
        struct interpreter_file file;
        if (!interpreter_files_find(x->files, m, false, &look, &file))
            continue;
        struct jvm *jvm = jvm_of(x, process, &file);
        try_read_layout(x, jvm, process, m, &file);
        if (!jvm->layout.heaps)
            return jvm->is_settled || jvm->tries == TRIES_MAX ? -ENOENT : -EAGAIN;
        ret->hotspot = jvm->layout;
        ret->runtime = INTERPRETER_HOTSPOT;
        return 0;
    }
    return interpreter_files_none(&look);
}

static bool hotspots_walks_code(void *self, const struct process *process)
{
    const struct jvm *jvm = jvm_of_process(self, process);
    return jvm && jvm->layout.heaps;
}

/* ---- methods ---- */

static struct hotspot_text make_text(const uint8_t *data, size_t capacity, uint16_t whole)
{
    return (struct hotspot_text){(const char *)data, whole < capacity ? whole : capacity, whole};
}

static int write_content(const struct hotspot_method *record, struct buf *to)
{
    struct content_head head = {.number_bias = record->number_bias,
                                .lines_bytes = (uint32_t)hotspot_lines_bytes(record->lines, record->lines_bytes)};
    const struct hotspot_text holder = make_text(record->class_data, sizeof(record->class_data), record->class_bytes),
                              name = make_text(record->name_data, sizeof(record->name_data), record->name_bytes),
                              signature = make_text(record->signature_data, sizeof(record->signature_data),
                                                    record->signature_bytes),
                              file = make_text(record->file_data, sizeof(record->file_data), record->file_bytes),
                              none = {.data = ""};
    buf_append(to, &head, sizeof(head));
    buf_append(to, record->lines, head.lines_bytes);
    int r = hotspot_name_write(&holder, &name, &signature, to);
    buf_putc(to, '\0');
    head.file_at = (uint32_t)to->size;
    if (r == 0 && file.whole == file.size)
        r = hotspot_name_write(&none, &file, &none, to);
    buf_putc(to, '\0');
    if (r == 0)
        r = buf_error(to);
    if (r == 0)
        memcpy(to->data, &head, sizeof(head));
    return r;
}

static int hotspots_take(void *self, const struct record_header *header)
{
    struct hotspots *x = self;
    const struct hotspot_method *record = (const struct hotspot_method *)header;
    if (!hotspot_method_is_sound(record))
        return -EBADMSG;
    const struct missing_code key = {.code = record->method, .pid = header->pid, .check = record->check};
    _cleanup_buf_ struct buf content = {0};
    if (write_content(record, &content) == 0) /* else out of memory: emitted again when a sample refers to it */
        code_registry_put(x->methods, &key, content.data, content.size);
    return 0;
}

static int hotspots_find(void *self, uint32_t pid, const struct interpreter_entry *entry, struct interpreted_name *ret)
{
    struct hotspots *x = self;
    const struct missing_code key = {.code = entry->code, .pid = pid, .check = entry->check};
    struct registered_code found;
    struct content_head head;
    if (!code_registry_find(x->methods, &key, &found))
        return -ENOENT;
    memcpy(&head, found.data, sizeof(head));
    const uint8_t *lines = (const uint8_t *)found.data + sizeof(head);
    const uint32_t position = entry->instruction >> INTERPRETER_ENTRY_POSITION_SHIFT & INTERPRETER_ENTRY_POSITION_MAX;
    *ret = (struct interpreted_name){
        .function = (const char *)lines + head.lines_bytes,
        .file = (const char *)found.data + head.file_at,
        .line = hotspot_line(lines, head.lines_bytes, head.number_bias, position ? position - 1 : 0),
        .is_first_line = !position};
    return 0;
}

static size_t hotspots_missing(void *self, struct missing_code *ret, size_t max)
{
    return code_registry_missing(((struct hotspots *)self)->methods, ret, max);
}

/* HotSpot has no evaluator: each of its frames is a native frame (INTERPRETER_TAIL_PLACED). */
static bool is_evaluator(const char *function)
{
    (void)function;
    return false;
}

static uint64_t hotspots_unsupported(const void *self)
{
    const struct hotspots *x = self;
    return x->unsupported + interpreter_files_unsupported(x->files);
}

static void hotspots_metrics(const void *self, struct metric_set *set)
{
    const struct hotspots *x = self;
    metric_add(set, "sonde_self_hotspot_method_bytes", METRIC_GAUGE, "bytes", "Memory held by names of Java methods",
               (double)(sizeof(*x) + code_registry_bytes(x->methods)), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_hotspot_methods_evicted", METRIC_COUNTER, "",
               "Java methods evicted to keep within bounds", (double)code_registry_evicted(x->methods),
               METRIC_NO_LABELS);
    metric_add(set, "sonde_self_hotspot_unsupported", METRIC_COUNTER, "",
               "Java virtual machines whose frames cannot be read", (double)hotspots_unsupported(x), METRIC_NO_LABELS);
}

const struct interpreter interpreter_hotspot = {
    .name = "Java (HotSpot)",
    .frame_kind = FRAME_JVM,
    .mapping = "[hotspot]",
    .memory_share = 1,
    .record_kind = RECORD_HOTSPOT_METHOD,
    .open = hotspots_open,
    .read_by = hotspots_read_by,
    .layout = hotspots_layout,
    .walks_code = hotspots_walks_code,
    .take = hotspots_take,
    .find = hotspots_find,
    .is_evaluator = is_evaluator,
    .missing = hotspots_missing,
    .unsupported = hotspots_unsupported,
    .metrics = hotspots_metrics,
    .free = hotspots_free,
};
