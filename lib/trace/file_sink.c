/* The sink of mode triton: gathers the JSON of several requests for the same file up to BATCH_BYTES and appends it in
 * one write. The file is determined by the settings that a request was started with. */
#include "format.h"
#include "output.h"
#include "process_generation.h"
#include "sink.h"
#include "writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BATCH_BYTES ((size_t)64 << 10)
#define PATH_SIZE   4096
#define INDEX_MAX   UINT64_C(1000000000)

struct file_sink {
    struct trace_sink sink;
    const char *file;
    bool forked;               /* this is a child process: its file has another name */
    struct trace_output plain; /* the single file of log-frequency 0 */
    bool plain_busy;           /* another process writes to the file: this one uses another name */
    uint64_t next_index;       /* of rotated files */
    struct trace_text text, scratch;
    struct trace_settings *settings; /* a reference to the settings of the traces in `text`; NULL when there are none */
    uint32_t traces;
    struct trace_format_counts counts;
};

/* FILE, or FILE.p<PID> if another process owns FILE; plus the index of a rotated file. */
static int path_of(const struct file_sink *f, bool rotated, uint64_t index, char *path)
{
    char pid[24] = "", suffix[24] = "";
    if (f->forked || (f->plain_busy && !rotated))
        snprintf(pid, sizeof(pid), ".p%d", (int)getpid());
    if (rotated)
        snprintf(suffix, sizeof(suffix), ".%llu", (unsigned long long)index);
    int n = snprintf(path, PATH_SIZE, "%s%s%s", f->file, pid, suffix);
    return n < 0 || n >= PATH_SIZE ? -ENAMETOOLONG : 0;
}

/* Creates the file with the next free index. */
static int open_rotated(struct file_sink *f, struct trace_output *o, char *path)
{
    for (; f->next_index < INDEX_MAX; f->next_index++) {
        int r = path_of(f, true, f->next_index, path);
        if (r == 0)
            r = trace_output_open(o, path, false);
        if (r != -EEXIST) {
            o->index = f->next_index;
            f->next_index += r == 0;
            return r;
        }
    }
    return -EEXIST;
}

static int open_plain(struct file_sink *f, char *path)
{
    int r = path_of(f, false, 0, path);
    if (r == 0)
        r = trace_output_open(&f->plain, path, true);
    if (r != -EBUSY || f->plain_busy)
        return r;
    f->plain_busy = true;
    return open_plain(f, path);
}

/* Ensures that the file for these settings is open and was not moved or deleted. */
static int prepare(struct file_sink *f, const struct trace_settings *s, struct trace_output *o, char *path)
{
    bool rotated = s->log_frequency > 0;
    int r = path_of(f, rotated, o->index, path);
    if (r < 0)
        return r;
    bool full = rotated && o->traces >= s->log_frequency;
    if (o->fd >= 0 && !full && o->generation == trace_generation_now() && trace_output_is_at(o, path))
        return 0;
    trace_output_close(o);
    return rotated ? open_rotated(f, o, path) : open_plain(f, path);
}

static struct trace_output *output_of(struct file_sink *f, struct trace_settings *s)
{
    return s->log_frequency > 0 ? &s->output : &f->plain;
}

/* How many more requests fit into the file before it rotates. */
static uint32_t room_in(const struct trace_output *o, const struct trace_settings *s)
{
    if (s->log_frequency == 0)
        return UINT32_MAX;
    return o->fd >= 0 && o->traces < s->log_frequency ? s->log_frequency - o->traces : s->log_frequency;
}

/* Appends the gathered text. `traces` never exceeds the remaining capacity of the file. */
static void write_out(struct file_sink *f, struct trace_writer *w)
{
    char path[PATH_SIZE] = "";
    struct trace_output *o = output_of(f, f->settings);
    int r = f->text.failed ? -ENOMEM : prepare(f, f->settings, o, path);
    if (r == 0)
        r = trace_output_append(o, path, f->text.data, f->text.size, f->traces);
    if (r < 0)
        trace_writer_count(&w->write_errors, 1);
    trace_writer_wrote(w, r, f->traces, *path ? path : f->file, "traces are lost", NULL);
    trace_text_clear(&f->text);
    trace_settings_unref(f->settings);
    f->settings = NULL;
    f->traces = 0;
}

static void write_tree(struct trace_sink *sink, struct trace_writer *w, const struct trace_tree *tree)
{
    struct file_sink *f = (struct file_sink *)sink;
    struct trace_settings *s = tree->settings;
    struct trace_output *o = output_of(f, s);
    if (f->traces > 0 &&
        (output_of(f, f->settings) != o || f->traces >= room_in(o, f->settings) || f->text.size >= BATCH_BYTES))
        write_out(f, w);
    if (f->settings != s) {
        trace_settings_unref(f->settings);
        f->settings = trace_settings_ref(s);
    }
    if (f->traces++ > 0)
        trace_text_putc(&f->text, ',');
    trace_format_tree(&f->text, &f->scratch, tree, &f->counts);
}

static void finish(struct trace_sink *sink, struct trace_writer *w)
{
    struct file_sink *f = (struct file_sink *)sink;
    if (f->traces > 0)
        write_out(f, w);
    trace_text_clear(&f->scratch);
    trace_writer_count(&w->tensors_malformed, f->counts.malformed);
    trace_writer_count(&w->tensors_too_large, f->counts.too_large);
    f->counts = (struct trace_format_counts){0};
}

static uint32_t weight(const struct trace_tree *tree)
{
    (void)tree;
    return 1;
}

/* The parent's thread may have been modifying the text at the fork, so the text and its settings reference are
 * abandoned. */
static void reset_in_child(struct trace_sink *sink)
{
    struct file_sink *f = (struct file_sink *)sink;
    *f = (struct file_sink){.sink = f->sink, .file = f->file, .forked = true};
    trace_output_init(&f->plain); /* not closed: see trace_output_close */
}

static void free_sink(struct trace_sink *sink)
{
    struct file_sink *f = (struct file_sink *)sink;
    trace_output_close(&f->plain);
    trace_text_free(&f->text);
    trace_text_free(&f->scratch);
    free(f);
}

struct trace_sink *trace_file_sink_new(const char *file)
{
    static const struct trace_sink_kind kind = {weight, write_tree, finish, reset_in_child, free_sink};
    struct file_sink *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->sink.kind = &kind;
    f->file = file;
    trace_output_init(&f->plain);
    return &f->sink;
}
