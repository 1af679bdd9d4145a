/* Runs probes/kernel_names.bpf.c; see kernel_names.h. One system call per lookup, 1 to 3 us. */
#include "sources/kernel_names/kernel_names.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <linux/types.h>

#include "kernel_names.skel.h"
#include "probes/kernel_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kernel_names {
    struct kernel_names_bpf *bpf;
};

void kernel_names_free(struct kernel_names *n)
{
    if (!n)
        return;
    kernel_names_bpf__destroy(n->bpf);
    free(n);
}

/* Runs a program once. Returns its return value, which may be negative, or -errno. */
static int run_program(const struct bpf_program *program)
{
    LIBBPF_OPTS(bpf_test_run_opts, options);
    int r = bpf_prog_test_run_opts(bpf_program__fd(program), &options);
    return r < 0 ? r : (int)options.retval;
}

static int load_programs(struct kernel_names *n)
{
    libbpf_print_fn_t before = libbpf_set_print(NULL); /* a failure is in the report, not in the log */
    n->bpf = kernel_names_bpf__open_and_load();
    int r = n->bpf ? run_program(n->bpf->progs.find_text) : -errno;
    libbpf_set_print(before);
    if (r < 0)
        return r;
    return n->bpf->bss->text_start < n->bpf->bss->text_end ? 0 : -ENOENT;
}

int kernel_names_open(struct attach_report *report, struct kernel_names **ret)
{
    struct attach_entry *entry = attach_report_add(report, "kernel function names");
    static const char method[] = "kernel lookup";
    _cleanup_(kernel_names_freep) struct kernel_names *n = calloc(1, sizeof(*n));
    if (!n)
        return -ENOMEM;
    int r = load_programs(n);
    entry->attached = true;
    if (r < 0) {
        attach_entry_refused(entry, method, r);
        snprintf(entry->method, sizeof(entry->method), "/proc/kallsyms");
        return r;
    }
    snprintf(entry->method, sizeof(entry->method), "%s", method);
    *ret = take_ptr(n);
    return 0;
}

void kernel_names_text(const struct kernel_names *n, uint64_t *ret_start, uint64_t *ret_end)
{
    *ret_start = n->bpf->bss->text_start;
    *ret_end = n->bpf->bss->text_end;
}

const char *kernel_names_lookup(void *kernel_names, uint64_t address)
{
    struct kernel_names *n = kernel_names;
    if (n->bpf->bss->text_end <= address && address < n->bpf->bss->image_end)
        return NULL; /* data, or init code that was freed after boot */
    n->bpf->bss->address = address;
    if (run_program(n->bpf->progs.name_address) < 0)
        return NULL;
    return strstr(n->bpf->bss->text, "+0x") ? n->bpf->bss->text : NULL;
}
