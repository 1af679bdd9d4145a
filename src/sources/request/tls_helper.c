/* See tls_helper.h. Single-threaded, one ask at a time. The return of a function is attached before its entry and
 * detached after it, so that no call is begun without its end being seen. */
#include "sources/request/tls_helper.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/helper_process.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <linux/types.h>

#include "probes/request.h"
#include "request.skel.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

struct attached {
    struct bpf_link *returns[TLS_PROBE_SITES_MAX], *entries[TLS_PROBE_SITES_MAX];
};

struct helper {
    struct bpf_program *programs[TLS_PROBES], *returns;
    struct attached places[TLS_ATTACHMENTS_MAX];
};

static bool has_return(uint32_t probe)
{
    return probe <= TLS_PROBE_WRITE_EX2;
}

static struct bpf_link *attach(struct bpf_program *program, const struct tls_ask *ask, uint64_t offset, int fd,
                               bool is_return)
{
    LIBBPF_OPTS(bpf_uprobe_opts, options, .retprobe = is_return);
    char path[40];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return bpf_program__attach_uprobe_opts(program, ask->pid, path, offset, &options);
}

static void detach_place(struct attached *at)
{
    for (size_t i = 0; i < TLS_PROBE_SITES_MAX; i++)
        bpf_link__destroy(at->entries[i]);
    for (size_t i = 0; i < TLS_PROBE_SITES_MAX; i++)
        bpf_link__destroy(at->returns[i]);
    *at = (struct attached){0};
}

static int attach_returns(struct helper *h, struct attached *at, const struct tls_ask *ask, int fd)
{
    for (size_t i = 0; i < ask->site_count; i++) {
        if (!has_return(ask->sites[i].probe))
            continue;
        at->returns[i] = attach(h->returns, ask, ask->sites[i].file_offset, fd, true);
        if (!at->returns[i])
            return -errno;
    }
    return 0;
}

static int attach_entries(struct helper *h, struct attached *at, const struct tls_ask *ask, int fd)
{
    for (size_t i = 0; i < ask->site_count; i++) {
        at->entries[i] = attach(h->programs[ask->sites[i].probe], ask, ask->sites[i].file_offset, fd, false);
        if (!at->entries[i])
            return -errno;
    }
    return 0;
}

/* Takes `fd`. */
static int serve(struct helper *h, const struct tls_ask *ask, int fd)
{
    _cleanup_close_ int file = fd;
    if (ask->place >= TLS_ATTACHMENTS_MAX || ask->site_count > TLS_PROBE_SITES_MAX)
        return -EINVAL;
    struct attached *at = &h->places[ask->place];
    detach_place(at);
    if (!ask->is_on)
        return 0;
    for (size_t i = 0; i < ask->site_count; i++)
        if (ask->sites[i].probe >= TLS_PROBES)
            return -EINVAL;
    int r = file < 0 ? -EMFILE : attach_returns(h, at, ask, file);
    if (r == 0)
        r = attach_entries(h, at, ask, file);
    if (r < 0)
        detach_place(at);
    return r;
}

static void keep_only(int control, const struct helper *h)
{
    int kept[TLS_PROBES + 2];
    for (size_t i = 0; i < TLS_PROBES; i++)
        kept[i] = bpf_program__fd(h->programs[i]);
    kept[TLS_PROBES] = bpf_program__fd(h->returns);
    kept[TLS_PROBES + 1] = control;
    helper_process_keep_only(kept, array_size(kept));
}

_Noreturn void tls_helper_run(int control, struct request_bpf *bpf)
{
    static struct helper h;
    struct tls_ask ask;
    const bool in_loop = bpf->rodata->has_preempt_disable; /* as request_attach.c has loaded them */
    h = (struct helper){
        .programs = {bpf->progs.tls_read, bpf->progs.tls_read_ex, bpf->progs.tls_write, bpf->progs.tls_write_ex,
                     bpf->progs.tls_write_ex2, bpf->progs.tls_free, bpf->progs.tls_bio_write, bpf->progs.tls_go_read,
                     in_loop ? bpf->progs.tls_go_text : bpf->progs.tls_go_text_by_calls, bpf->progs.tls_go_write},
        .returns = in_loop ? bpf->progs.tls_return : bpf->progs.tls_return_by_calls};
    keep_only(control, &h);
    helper_process_become("sonde-tls");
    helper_process_raise_descriptors(); /* each attached site takes up to four */
    for (;;) {
        _cleanup_(descriptors_close) struct descriptors with;
        if (descriptors_receive(control, &ask, sizeof(ask), &with, 0) != (ssize_t)sizeof(ask))
            break;
        const struct tls_answer answer = {ask.place, serve(&h, &ask, take_fd(&with.fds[0]))};
        if (send(control, &answer, sizeof(answer), MSG_NOSIGNAL) != sizeof(answer))
            break;
    }
    for (size_t i = 0; i < TLS_ATTACHMENTS_MAX; i++)
        detach_place(&h.places[i]);
    _exit(0);
}
