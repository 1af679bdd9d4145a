/* The attaching helper process; see link_helper.h. Single-threaded, one request at a time. The table is consistent at
 * every moment: leave sites are attached before and detached after the enter site, and links recorded until the enter
 * site is detached are discarded before the leave sites are detached. */
#include "sources/link/link_helper.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/helper_process.h"
#include "sources/attach/uprobe_link.h"
#include "sources/link/link_table.h"
#include "sources/link/link_trial.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <linux/types.h>

#include "link.skel.h"
#include "probes/link.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

struct attached_file {
    bool is_on;
    struct link_ask ask;
    struct uprobe_link *links[LINK_SITES_MAX];
};

struct helper {
    struct link_bpf *bpf;
    struct attached_file files[LINK_FILES_MAX];
    size_t count;       /* attached files */
    uint32_t forgotten; /* threads since the last response */
};

/* ---- attaching ---- */

static int trace_thread_ends(struct helper *h, bool on)
{
    struct bpf_link **links[] = {&h->bpf->links.forget_exit, &h->bpf->links.forget_exec};
    struct bpf_program *programs[] = {h->bpf->progs.forget_exit, h->bpf->progs.forget_exec};
    for (size_t i = 0; i < array_size(links); i++) {
        bpf_link__destroy(*links[i]);
        *links[i] = on ? bpf_program__attach(programs[i]) : NULL;
        if (on && !*links[i])
            return -errno;
    }
    return 0;
}

static void detach_sites(struct attached_file *a, bool is_leave)
{
    for (size_t i = 0; i < a->ask.site_count; i++) {
        if (a->ask.sites[i].is_leave != is_leave)
            continue;
        uprobe_link_free(a->links[i]);
        a->links[i] = NULL;
    }
}

static void detach_sites_in_order(struct helper *h, struct attached_file *a, bool forget)
{
    uint64_t count;
    detach_sites(a, false);
    if (forget && link_table_forget_all(bpf_map__fd(h->bpf->maps.thread_links), false, &count) == 0)
        h->forgotten += (uint32_t)count;
    detach_sites(a, true);
}

static int attach_sites(struct helper *h, struct attached_file *a, int fd, bool is_leave)
{
    struct bpf_program *program = is_leave ? h->bpf->progs.thread_leave : h->bpf->progs.thread_enter;
    for (size_t i = 0; i < a->ask.site_count; i++) {
        const struct link_site *s = &a->ask.sites[i];
        const struct uprobe_place place = {
            .fd = fd, .file_offset = s->file_offset, .semaphore_offset = s->semaphore_offset, .pid = -1};
        if (s->is_leave != is_leave)
            continue;
        const int r = uprobe_link_new(program, &place, &a->links[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Attaches the enter site last: no thread has entered through a file that is then refused, so a file cannot make us
 * discard the links of other files' threads. */
static int attach_file(struct helper *h, const struct link_ask *ask, int fd)
{
    struct attached_file *a = &h->files[ask->place];
    if (a->is_on || ask->site_count == 0 || ask->site_count > LINK_SITES_MAX)
        return -EINVAL;
    *a = (struct attached_file){.ask = *ask};
    int r = h->count == 0 ? trace_thread_ends(h, true) : 0;
    if (r == 0)
        r = attach_sites(h, a, fd, true);
    if (r == 0)
        r = attach_sites(h, a, fd, false);
    a->is_on = r == 0;
    h->count += r == 0;
    if (r < 0)
        detach_sites_in_order(h, a, false);
    if (r < 0 && h->count == 0)
        (void)trace_thread_ends(h, false);
    return r;
}

static int detach_file(struct helper *h, uint32_t place, bool forget)
{
    struct attached_file *a = &h->files[place];
    if (!a->is_on)
        return -ENOENT;
    detach_sites_in_order(h, a, forget);
    a->is_on = false;
    if (--h->count == 0) {
        (void)trace_thread_ends(h, false);
        link_table_clear(bpf_map__fd(h->bpf->maps.thread_links));
    }
    return 0;
}

/* ---- process ---- */

/* Takes ownership of `fd`. */
static int handle_request(struct helper *h, const struct link_ask *ask, int fd)
{
    _cleanup_close_ int file = fd;
    if (ask->place >= LINK_FILES_MAX)
        return -EINVAL;
    if (ask->kind != LINK_ASK_ATTACH)
        return detach_file(h, ask->place, ask->kind == LINK_ASK_DETACH_AND_FORGET);
    return file < 0 ? -EMFILE : attach_file(h, ask, file);
}

/* Takes ownership of `fd`. */
static struct link_answer respond(struct helper *h, const struct link_ask *ask, int fd)
{
    struct link_answer response = {.place = ask->place, .error = handle_request(h, ask, fd)};
    response.forgotten = h->forgotten;
    h->forgotten = 0;
    return response;
}

/* False when the agent has closed the socket. */
static bool receive_request(int control, struct link_ask *ret, int *ret_fd)
{
    _cleanup_(descriptors_close) struct descriptors with;
    if (descriptors_receive(control, ret, sizeof(*ret), &with, 0) != (ssize_t)sizeof(*ret))
        return false;
    *ret_fd = take_fd(&with.fds[0]);
    return true;
}

static void keep_only(int control, const struct link_bpf *bpf)
{
    int kept[] = {control,
                  bpf_map__fd(bpf->maps.link_stats),
                  bpf_map__fd(bpf->maps.thread_links),
                  bpf_program__fd(bpf->progs.thread_enter),
                  bpf_program__fd(bpf->progs.thread_leave),
                  bpf_program__fd(bpf->progs.forget_exit),
                  bpf_program__fd(bpf->progs.forget_exec)};
    helper_process_keep_only(kept, array_size(kept));
}

/* Finds out whether attaching works, and inserts the epoch's entry while the table has room. */
static int check_support(struct helper *h)
{
    uint64_t count;
    int r = trace_thread_ends(h, true);
    (void)trace_thread_ends(h, false);
    if (r == 0)
        r = link_table_forget_all(bpf_map__fd(h->bpf->maps.thread_links), false, &count);
    return r < 0 ? r : link_trial(h->bpf->progs.thread_leave, bpf_map__fd(h->bpf->maps.link_stats));
}

_Noreturn void link_helper_run(int control, struct link_bpf *bpf)
{
    static struct helper h;
    h.bpf = bpf;
    keep_only(control, bpf); /* before the table of open files grows */
    helper_process_become("sonde-links");
    helper_process_raise_descriptors(); /* each attached site takes two */
    struct link_answer response = {.place = LINK_FILES_MAX, .error = check_support(&h)};
    struct link_ask ask;
    int fd;
    while (send(control, &response, sizeof(response), MSG_NOSIGNAL) == sizeof(response) &&
           receive_request(control, &ask, &fd))
        response = respond(&h, &ask, fd);
    for (uint32_t i = 0; i < LINK_FILES_MAX; i++)
        (void)detach_file(&h, i, true);
    _exit(0);
}
