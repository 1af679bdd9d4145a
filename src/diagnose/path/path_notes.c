/* Sums evidence up and words it; see path_notes.h. */
#include "diagnose/path/path_notes.h"

#include "base/units.h"
#include "diagnose/path/path_disk.h"
#include "diagnose/path/path_interrupts.h"
#include "diagnose/path/path_reclaim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES  ((uint64_t)4096)
#define SHOWN_MAX   4    /* files, or programs, of a segment */
#define SHORT_SHARE 100  /* a program that ran for less than this part of the wait is not named, */
#define WAIT_SHARE  10   /* nor a wait of less than this part of its segments, */
#define WAIT_MIN_NS 1000 /* nor one so short */

static void begin_line(struct buf *out)
{
    if (out->size)
        buf_putc(out, '\n');
}

static uint64_t duration_of(const struct path_segments *path, size_t first, size_t end)
{
    return path->items[end - 1].end_ns - path->items[first].start_ns;
}

/* ---- files ---- */

struct file_sum {
    uint64_t file;
    uint64_t first_page; /* of the lowest range */
    uint64_t pages;      /* each counted once */
    size_t ranges;       /* that do not touch */
    bool is_transfer, is_inferred;
};

static bool is_of_segments(const struct path_file_wait *wait, const struct path_segments *path, size_t first,
                           size_t end)
{
    for (size_t i = first; i < end; i++)
        if (wait->time_ns >= path->items[i].start_ns && wait->time_ns < path->items[i].end_ns)
            return wait->tid == path->items[i].tid;
    return false;
}

static int compare_waits(const void *a, const void *b)
{
    const struct path_file_wait *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->is_transfer != y->is_transfer)
        return x->is_transfer ? -1 : 1;
    return x->first_page < y->first_page ? -1 : x->first_page > y->first_page;
}

static int compare_sums(const void *a, const void *b)
{
    const struct file_sum *x = a, *y = b;
    return x->pages != y->pages ? (x->pages > y->pages ? -1 : 1) : x->file < y->file ? -1 : x->file > y->file;
}

/* Sums up the waits by file. If pages of a file were transferred, its pages that were only asked for are left out.
 * Returns the number of files. */
static size_t sum_files(const struct path_file_wait *sorted, size_t count, struct file_sum *ret)
{
    size_t sums = 0;
    uint64_t last_end = 0;
    for (size_t i = 0; i < count; i++) {
        const struct path_file_wait *w = &sorted[i];
        struct file_sum *sum = sums ? &ret[sums - 1] : NULL;
        if (!sum || sum->file != w->file) {
            sum = &ret[sums++];
            *sum = (struct file_sum){.file = w->file, .first_page = w->first_page, .is_transfer = w->is_transfer};
            last_end = 0;
        }
        if (!w->pages || w->is_transfer != sum->is_transfer)
            continue;
        const uint64_t from = w->first_page > last_end ? w->first_page : last_end, end = w->first_page + w->pages;
        sum->ranges += sum->ranges == 0 || w->first_page > last_end;
        sum->pages += end > from ? end - from : 0;
        sum->is_inferred |= w->is_inferred;
        last_end = end > last_end ? end : last_end;
    }
    qsort(ret, sums, sizeof(*ret), compare_sums);
    return sums;
}

static void put_file(const struct file_sum *f, uint64_t ns, const struct path_names *names, struct buf *out)
{
    struct path_file_name name = {.name = ""};
    char size[32];
    if (names->file)
        names->file(names->context, f->file, &name);
    begin_line(out);
    if (name.file_system[0])
        buf_printf(out, "%s (%s)", name.name[0] ? name.name : "a device's own blocks", name.file_system);
    else
        buf_puts(out, "a file whose name is no longer known");
    if (f->pages) {
        buf_printf(out, ": %s%s", f->is_transfer ? "" : "asked for ",
                   units_format_size(f->pages * PAGE_BYTES, size, sizeof(size)));
        if (f->ranges == 1)
            buf_printf(out, " at offset %" PRIu64, f->first_page * PAGE_BYTES);
        else
            buf_printf(out, " in %zu places", f->ranges);
        if (f->is_transfer && ns)
            buf_printf(
                out, ", %s/s",
                units_format_size((uint64_t)((double)(f->pages * PAGE_BYTES) * 1e9 / (double)ns), size, sizeof(size)));
    }
    buf_puts(out, f->is_inferred ? " (inferred)" : "");
}

static void put_files(const struct path_segments *path, size_t first, size_t end, const struct path_names *names,
                      struct buf *out)
{
    size_t count, kept = 0;
    const struct path_file_wait *waits =
        path_evidence_files(&path->evidence, path->items[first].start_ns, path->items[end - 1].end_ns, &count);
    _cleanup_free_ struct path_file_wait *own = calloc(count + 1, sizeof(*own));
    _cleanup_free_ struct file_sum *sums = calloc(count + 1, sizeof(*sums));
    if (!count || !own || !sums)
        return;
    for (size_t i = 0; i < count; i++)
        if (is_of_segments(&waits[i], path, first, end))
            own[kept++] = waits[i];
    qsort(own, kept, sizeof(*own), compare_waits);
    const size_t files = sum_files(own, kept, sums);
    for (size_t i = 0; i < files && i < SHOWN_MAX; i++)
        put_file(&sums[i], duration_of(path, first, end), names, out);
}

/* ---- run queue ---- */

/* The processes of one name. */
struct program {
    char name[PATH_PROCESS_BYTES]; /* "": not known */
    uint64_t ns;
    uint32_t pid; /* of one of them */
    unsigned processes;
};

static int compare_pids(const void *a, const void *b)
{
    const struct path_runner *x = a, *y = b;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static int compare_programs(const void *a, const void *b)
{
    const struct program *x = a, *y = b;
    return x->ns != y->ns ? (x->ns > y->ns ? -1 : 1) : x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* A wait for a quota is left out: it was not for another thread. */
static bool is_run_queue(const struct path_segment *s)
{
    return s->kind == REQUEST_PART_RUN_QUEUE && !s->reason[0];
}

static bool is_waiting_segment(const struct path_segments *path, size_t first, size_t end, uint64_t start_ns)
{
    for (size_t i = first; i < end; i++)
        if (path->items[i].start_ns == start_ns)
            return is_run_queue(&path->items[i]);
    return false;
}

/* Copies the runners of segments [first, end), sorted by PID. Returns their number. */
static size_t select_runners(const struct path_segments *path, size_t first, size_t end, struct path_runner *ret)
{
    const struct path_evidence *e = &path->evidence;
    size_t count = 0;
    for (size_t i = 0; i < e->runner_count; i++)
        if (is_waiting_segment(path, first, end, e->runners[i].segment_ns))
            ret[count++] = e->runners[i];
    qsort(ret, count, sizeof(*ret), compare_pids);
    return count;
}

static void name_program(const struct path_names *names, uint32_t pid, uint32_t own_pid, char out[PATH_PROCESS_BYTES])
{
    out[0] = '\0';
    if (pid == own_pid)
        snprintf(out, PATH_PROCESS_BYTES, "its own process");
    else if (names->process)
        names->process(names->context, pid, out);
}

/* Sums up the runners, which are sorted by PID, by the name of their process; the longest first. */
static size_t sum_programs(const struct path_runner *sorted, size_t runners, uint32_t own_pid,
                           const struct path_names *names, struct program *ret)
{
    size_t count = 0, at = 0;
    for (size_t i = 0; i < runners; i++) {
        if (i == 0 || sorted[i].pid != sorted[i - 1].pid) {
            struct program program = {.pid = sorted[i].pid};
            name_program(names, program.pid, own_pid, program.name);
            for (at = 0; at < count && strcmp(ret[at].name, program.name) != 0;)
                at++;
            if (at == count)
                ret[count++] = program;
            ret[at].processes++;
        }
        ret[at].ns += sorted[i].ns;
    }
    qsort(ret, count, sizeof(*ret), compare_programs);
    return count;
}

static void put_program(const struct program *p, uint32_t own_pid, struct buf *out)
{
    const bool is_one = p->processes == 1;
    if (p->pid == own_pid)
        buf_puts(out, p->name);
    else if (p->name[0] && is_one)
        buf_printf(out, "%s (process %" PRIu32 ")", p->name, p->pid);
    else if (p->name[0])
        buf_printf(out, "%s (%u processes)", p->name, p->processes);
    else if (is_one)
        buf_printf(out, "process %" PRIu32, p->pid);
    else
        buf_printf(out, "%u processes whose names are not known", p->processes);
}

static void put_runners(const struct path_segments *path, size_t first, size_t end, const struct path_names *names,
                        struct buf *out)
{
    const size_t most = path->evidence.runner_count + 1;
    const uint32_t own_pid = path->items[first].pid;
    _cleanup_free_ struct path_runner *runners = calloc(most, sizeof(*runners));
    _cleanup_free_ struct program *programs = calloc(most, sizeof(*programs));
    uint64_t waited_ns = 0;
    if (!runners || !programs)
        return;
    const size_t selected = select_runners(path, first, end, runners);
    const size_t count = sum_programs(runners, selected, own_pid, names, programs);
    for (size_t i = first; i < end; i++)
        if (is_run_queue(&path->items[i]))
            waited_ns += path->items[i].end_ns - path->items[i].start_ns;
    if (!count || programs[0].ns <= waited_ns / SHORT_SHARE)
        return;
    begin_line(out);
    buf_puts(out, "the CPU ran ");
    for (size_t i = 0; i < count && i < SHOWN_MAX; i++) {
        if (programs[i].ns <= waited_ns / SHORT_SHARE)
            break;
        buf_puts(out, i ? ", " : "");
        put_program(&programs[i], own_pid, out);
        buf_printf(out, i ? " %.0f %%" : " for %.0f %% of the wait",
                   100.0 * (double)programs[i].ns / (double)waited_ns);
    }
}

/* ---- interrupts ---- */

static bool starts_segment(const struct path_segments *path, size_t first, size_t end, uint64_t start_ns)
{
    for (size_t i = first; i < end; i++)
        if (path->items[i].start_ns == start_ns)
            return true;
    return false;
}

/* "CPU 1 ran NET_RX for 7.90 ms", for each of the first few that differ. */
static void put_interrupts(const struct path_segments *path, size_t first, size_t end, const struct path_names *names,
                           struct buf *out)
{
    const struct path_evidence *e = &path->evidence;
    struct path_interrupt sums[SHOWN_MAX];
    size_t count = 0;
    for (size_t i = 0; i < e->interrupt_count; i++) {
        size_t at = 0;
        if (!starts_segment(path, first, end, e->interrupts[i].segment_ns))
            continue;
        while (at < count && sums[at].what != e->interrupts[i].what)
            at++;
        if (at == SHOWN_MAX)
            continue;
        if (at == count)
            sums[count++] = (struct path_interrupt){.what = e->interrupts[i].what};
        sums[at].ns += e->interrupts[i].ns;
    }
    for (size_t i = 0; i < count; i++) {
        char ran[PATH_RAN_BYTES], time[32];
        begin_line(out);
        buf_printf(out, "%s for %s", path_names_interrupt(sums[i].what, names, ran),
                   units_format_duration(sums[i].ns, time, sizeof(time)));
    }
}

/* ---- CPU samples ---- */

/* The request was ready, and its thread at other work. */
static bool is_ready(enum request_part_kind kind)
{
    return kind == REQUEST_PART_UNREAD || kind == REQUEST_PART_LOOP_BUSY || kind == REQUEST_PART_QUEUE_BEHIND;
}

/* Appends the code where CPU samples found the thread that the segments are shown with: it ran, for the request or for
 * others, or as the holder of a lock. */
static void put_samples(uint32_t tid, uint64_t from_ns, uint64_t to_ns, const struct path_names *names, struct buf *out)
{
    struct code_tally tally;
    struct code_place place;
    char text[CODE_TEXT_BYTES];
    code_tally_begin(&tally);
    if (names->samples)
        names->samples(names->context, tid, from_ns, to_ns, &tally);
    const size_t most = code_tally_most(&tally, &place);
    if (!most)
        return;
    begin_line(out);
    buf_printf(out, "%zu of %zu CPU samples are in %s", most, tally.samples, code_place_text(&place, text));
}

/* ---- waits ---- */

/* "thread 4711 waited 4.00 ms in handle() app.py:12". */
static void put_wait(uint32_t tid, uint64_t from_ns, uint64_t to_ns, const struct path_names *names, struct buf *out)
{
    char time[32];
    struct path_wait wait;
    if (!tid || !names->wait || !names->wait(names->context, tid, from_ns, to_ns, &wait))
        return;
    if (wait.ns < WAIT_MIN_NS || wait.ns < (to_ns - from_ns) / WAIT_SHARE)
        return;
    begin_line(out);
    buf_printf(out, "thread %" PRIu32 " waited %s%s", tid, units_format_duration(wait.ns, time, sizeof(time)),
               wait.where[0] ? wait.where : wait.kernel);
}

/* The thread that waited for the lock that `tid` held; 0: not known. */
static uint32_t find_waiter(const struct path_segments *path, size_t first, size_t end, uint32_t tid)
{
    for (size_t i = first; i < end; i++)
        if (path->items[i].kind == REQUEST_PART_LOCK && path->items[i].tid == tid)
            return path->items[i].for_tid;
    return 0;
}

void path_notes_put(const struct path_segments *path, size_t first, size_t end, enum request_part_kind kind,
                    uint32_t tid, const struct path_names *names, struct buf *out)
{
    const uint64_t start_ns = path->items[first].start_ns, end_ns = path->items[end - 1].end_ns;
    if (kind == REQUEST_PART_RUN_QUEUE)
        put_runners(path, first, end, names, out);
    else
        put_files(path, first, end, names, out);
    put_interrupts(path, first, end, names, out);
    path_reclaim_put(path, first, end, names, out);
    if (kind == REQUEST_PART_DISK)
        path_disk_put(path, first, end, names, out);
    if (tid && (kind == REQUEST_PART_CPU || kind == REQUEST_PART_LOCK || is_ready(kind)))
        put_samples(tid, start_ns, end_ns, names, out);
    if (kind == REQUEST_PART_LOCK) /* where the code is that asked for it */
        put_wait(find_waiter(path, first, end, tid), start_ns, end_ns, names, out);
    if (kind != REQUEST_PART_CPU && kind != REQUEST_PART_RUN_QUEUE)
        put_wait(tid, start_ns, end_ns, names, out);
}
