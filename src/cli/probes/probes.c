/* `sonde probes`: lists the USDT probes of running processes, their arguments, and whether a tracer is attached. Reads
 * /proc and the mapped files only; needs no agent. */
#include "cli/probes/probes.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/standard_output.h"
#include "base/table_cell.h"
#include "cli/subcommands.h"
#include "resolve/usdt/usdt_processes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FLUSH_BYTES  (64u << 10)
#define NAME_COLUMNS 40

struct probe_list {
    bool json;
    uint64_t count;
    struct buf out;
};

static const char *attached_text(enum usdt_attached attached)
{
    return attached == USDT_ATTACHED ? "yes" : attached == USDT_NOT_ATTACHED ? "no" : "?";
}

static void put_probe_text(struct buf *out, const struct usdt_probe *p)
{
    const struct usdt_site *s = p->sites;
    const size_t before = out->size;
    buf_printf(out, "%7" PRIu32 " ", p->pid);
    table_cell_put(out, p->process, 15);
    buf_putc(out, ' ');
    const size_t name = out->size;
    table_cell_put(out, s->provider, 0);
    buf_putc(out, ':');
    const int provider_bytes = (int)(out->size - name);
    table_cell_put(out, s->name, NAME_COLUMNS - provider_bytes);
    buf_printf(out, " %-8s ", attached_text(p->attached));
    table_cell_put(out, s->declaration ? s->declaration : s->operands, 0);
    while (out->size > before && out->data[out->size - 1] == ' ')
        out->size--;
    buf_putc(out, '\n');
}

static void put_json_string_n(struct buf *out, const char *text, size_t size)
{
    char copy[128];
    snprintf(copy, sizeof(copy), "%.*s", size < sizeof(copy) ? (int)size : (int)sizeof(copy) - 1, text);
    buf_put_json_string(out, copy);
}

/* "str model, u32 length" as [{"name":"model","type":"str"},...]. */
static void put_arguments(struct buf *out, const char *declaration)
{
    buf_putc(out, '[');
    for (const char *at = declaration; *at;) {
        const size_t size = strcspn(at, ","), type = strcspn(at, " ,");
        buf_puts(out, at == declaration ? "{\"name\":" : ",{\"name\":");
        put_json_string_n(out, at + type + (type < size), size - type - (type < size));
        buf_puts(out, ",\"type\":");
        put_json_string_n(out, at, type);
        buf_putc(out, '}');
        at += size;
        at += strspn(at, ", ");
    }
    buf_putc(out, ']');
}

static void put_probe_json(struct buf *out, const struct usdt_probe *p)
{
    const struct usdt_site *s = p->sites;
    buf_printf(out, "{\"pid\":%" PRIu32 ",\"process\":", p->pid);
    buf_put_json_string(out, p->process);
    buf_puts(out, ",\"provider\":");
    buf_put_json_string(out, s->provider);
    buf_puts(out, ",\"probe\":");
    buf_put_json_string(out, s->name);
    buf_puts(out, ",\"arguments\":");
    if (s->declaration)
        put_arguments(out, s->declaration);
    else
        buf_puts(out, "null");
    buf_puts(out, ",\"operands\":");
    buf_put_json_string(out, s->operands);
    buf_printf(out, ",\"attached\":%s,\"semaphore\":%s,\"sites\":%zu,\"file\":",
               p->attached == USDT_ATTACHED       ? "true"
               : p->attached == USDT_NOT_ATTACHED ? "false"
                                                  : "null",
               p->has_semaphore ? "true" : "false", p->site_count);
    buf_put_json_string(out, p->path);
    buf_putc(out, '}');
}

static int put_probe(void *context, const struct usdt_probe *p)
{
    struct probe_list *l = context;
    if (l->json) {
        buf_puts(&l->out, l->count ? ",\n" : "");
        put_probe_json(&l->out, p);
    } else {
        if (l->count == 0)
            buf_printf(&l->out, "%7s %-15s %-*s %-8s %s\n", "PID", "PROCESS", NAME_COLUMNS, "PROVIDER:PROBE",
                       "ATTACHED", "ARGUMENTS");
        put_probe_text(&l->out, p);
    }
    l->count++;
    return l->out.size < FLUSH_BYTES && buf_error(&l->out) == 0 ? 0 : standard_output_flush(&l->out);
}

static void put_losses(struct buf *out, const struct usdt_losses *losses)
{
    buf_printf(out,
               "],\"not_seen\":{\"refused\":%" PRIu64 ",\"unreadable\":%" PRIu64 ",\"damaged_notes\":%" PRIu64
               ",\"left_out\":%" PRIu64 "}}\n",
               losses->refused, losses->unreadable, losses->damaged_notes, losses->left_out);
}

static int list_probes(const struct usdt_filter *filter, bool json)
{
    _cleanup_(usdt_processes_freep) struct usdt_processes *processes = NULL;
    struct usdt_losses losses;
    struct probe_list l = {.json = json};
    buf_puts(&l.out, json ? "{\"probes\":[" : "");
    int r = usdt_processes_new(filter, put_probe, &l, &processes);
    if (r == 0)
        r = usdt_processes_walk(processes);
    if (r == 0)
        usdt_processes_losses(processes, &losses);
    if (r == 0 && json)
        put_losses(&l.out, &losses);
    if (r == 0)
        r = standard_output_flush(&l.out);
    buf_clear(&l.out);
    if (r == -ESRCH && filter->pid) {
        log_error("probes: no process %" PRIu32, filter->pid);
        return r;
    }
    if (r == -EACCES && filter->pid)
        return log_errno(r, "probes: process %" PRIu32 " cannot be inspected without CAP_SYS_PTRACE", filter->pid);
    if (r < 0)
        return log_errno(r, "probes: cannot list the probes");
    probes_warn_losses(&losses);
    if (l.count == 0 && filter->provider) {
        log_error("probes: no process has a probe %s%s%s", filter->provider, filter->name ? ":" : "",
                  filter->name ? filter->name : "");
        return -ENOENT;
    }
    return 0;
}

/* Parses "PROVIDER" or "PROVIDER:PROBE". Splits `text` in place; the filter borrows it. */
static int set_filter(struct usdt_filter *f, char *text)
{
    f->provider = text;
    char *colon = strchr(text, ':');
    if (colon) {
        *colon = '\0';
        f->name = colon + 1;
    }
    if (*f->provider && (!f->name || *f->name))
        return 0;
    log_error("probes: '%s%s' is not PROVIDER or PROVIDER:PROBE", text, colon ? ":" : "");
    return -EINVAL;
}

/* `sonde probes watch PROVIDER:PROBE` */
static int watch_probe(struct probes_watch_options *o, int operands, char **argv)
{
    int r = operands == 2 ? set_filter(&o->filter, argv[2]) : -EINVAL;
    if (r == 0 && o->filter.name)
        return probes_watch(o);
    log_error("probes: watch needs a PROVIDER:PROBE (sonde probes lists them)");
    return -EINVAL;
}

void probes_warn_losses(const struct usdt_losses *l)
{
    if (l->refused)
        log_warning("probes: %" PRIu64 " processes were skipped: CAP_SYS_PTRACE is missing", l->refused);
    if (l->unreadable)
        log_warning("probes: %" PRIu64 " files or processes could not be read", l->unreadable);
    if (l->damaged_notes)
        log_warning("probes: %" PRIu64 " malformed probe notes were ignored", l->damaged_notes);
    if (l->left_out)
        log_warning("probes: %" PRIu64 " probes or mappings were left out: table full", l->left_out);
}

static int run_probes(int argc, char **argv)
{
    bool json = false;
    int64_t pid = 0;
    int operands;
    struct probes_watch_options o = {0};
    const struct option_spec specs[] = {
        {'p', "pid", OPTION_INTEGER, &pid, "PID", "only this process", 1, 1 << 22},
        {0, "json", OPTION_FLAG, &json, NULL, "list: one JSON object; watch: one per firing, or one with the counts", 0,
         0},
        {'d', "duration", OPTION_DURATION, &o.duration_ns, "SECONDS",
         "watch: for this long (default until interrupted)", 1000000, 86400000000000},
        {0, "by", OPTION_TEXT, &o.by, "ARG", "watch: count firings by the value of this argument", 0, 0},
        {0, "hist", OPTION_TEXT, &o.histogram, "ARG", "watch: histogram of the values of this argument", 0, 0},
        {0},
    };
    int r = options_parse(&subcommand_probes, specs, argc, argv, &operands);
    if (r != 0)
        return r < 0 ? r : 0;
    o.filter.pid = (uint32_t)pid;
    const bool is_watch = operands > 0 && strcmp(argv[1], "watch") == 0;
    o.json = json;
    if (!is_watch && (o.by || o.histogram || o.duration_ns)) {
        log_error("probes: --duration, --by and --hist apply to `sonde probes watch` only");
        return -EINVAL;
    }
    if (is_watch)
        return watch_probe(&o, operands, argv);
    if (operands > 1) {
        log_error("probes: unexpected argument '%s' (see sonde probes --help)", argv[2]);
        return -EINVAL;
    }
    r = operands ? set_filter(&o.filter, argv[1]) : 0;
    return r < 0 ? r : list_probes(&o.filter, json);
}

const struct subcommand subcommand_probes = {
    .name = "probes",
    .synopsis = "[watch] [PROVIDER[:PROBE]] [-p PID] [--json] [-d SECONDS] [--by ARG] [--hist ARG]",
    .summary = "List the USDT probes of running programs, and watch them fire",
    .details =
        "Lists the USDT probes (such as libsonde's) of every process, or of -p PID: their arguments, as declared by\nlibsonde or as operands of the note, and whether a tracer is attached.\n`sonde probes watch PROVIDER:PROBE` attaches and prints each firing, or counts firings by an argument.",
    .flags_anywhere = true,
    .run = run_probes,
};
