/* The attaching process; see link_helper.h. One thread, one thing at a time. What was attached and what is
 * believed agree at every moment: leaving is heard before and after entering, and whatever was heard until
 * entering is heard no more is forgotten before leaving goes too. */
#include "sources/link/link_helper.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/helper_process.h"
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
#include <sys/resource.h>
#include <sys/socket.h>

struct attached {
    bool is_on;
    struct link_ask ask;
    struct bpf_link *links[LINK_SITES_MAX];
};

struct helper {
    struct link_bpf *bpf;
    struct attached files[LINK_FILES_MAX];
    size_t count;       /* of those that are on */
    uint32_t forgotten; /* threads, since the last answer */
};

/* ---- attaching ---- */

static int hear_ends(struct helper *h, bool on)
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

static void switch_off_sites(struct attached *a, bool is_leave)
{
    for (size_t i = 0; i < a->ask.site_count; i++) {
        if (a->ask.sites[i].is_leave != is_leave)
            continue;
        bpf_link__destroy(a->links[i]);
        a->links[i] = NULL;
    }
}

static void switch_off(struct helper *h, struct attached *a, bool forget)
{
    uint64_t count;
    switch_off_sites(a, false);
    if (forget && link_table_forget_all(bpf_map__fd(h->bpf->maps.thread_links), false, &count) == 0)
        h->forgotten += (uint32_t)count;
    switch_off_sites(a, true);
}

static int switch_on_sites(struct helper *h, struct attached *a, const char *path, bool is_leave)
{
    struct bpf_program *program = is_leave ? h->bpf->progs.thread_leave : h->bpf->progs.thread_enter;
    for (size_t i = 0; i < a->ask.site_count; i++) {
        const struct link_site *s = &a->ask.sites[i];
        LIBBPF_OPTS(bpf_uprobe_opts, options, .ref_ctr_offset = s->semaphore_offset);
        if (s->is_leave != is_leave)
            continue;
        a->links[i] = bpf_program__attach_uprobe_opts(program, -1, path, s->file_offset, &options);
        if (!a->links[i])
            return -errno;
    }
    return 0;
}

/* The one place of entering comes last: nobody has been heard to enter by a file that was refused, so that no
 * file can make us forget what other files' threads work for. */
static int attach(struct helper *h, const struct link_ask *ask, int fd)
{
    struct attached *a = &h->files[ask->place];
    char path[40];
    if (a->is_on || ask->site_count == 0 || ask->site_count > LINK_SITES_MAX)
        return -EINVAL;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    *a = (struct attached){.ask = *ask};
    int r = h->count == 0 ? hear_ends(h, true) : 0;
    if (r == 0)
        r = switch_on_sites(h, a, path, true);
    if (r == 0)
        r = switch_on_sites(h, a, path, false);
    a->is_on = r == 0;
    h->count += r == 0;
    if (r < 0)
        switch_off(h, a, false);
    if (r < 0 && h->count == 0)
        (void)hear_ends(h, false);
    return r;
}

static int detach(struct helper *h, uint32_t place, bool forget)
{
    struct attached *a = &h->files[place];
    if (!a->is_on)
        return -ENOENT;
    switch_off(h, a, forget);
    a->is_on = false;
    if (--h->count == 0) {
        (void)hear_ends(h, false);
        link_table_clear(bpf_map__fd(h->bpf->maps.thread_links));
    }
    return 0;
}

/* ---- the process ---- */

/* Takes `fd`. */
static int answer(struct helper *h, const struct link_ask *ask, int fd)
{
    _cleanup_close_ int file = fd;
    if (ask->place >= LINK_FILES_MAX)
        return -EINVAL;
    if (ask->kind != LINK_ASK_ATTACH)
        return detach(h, ask->place, ask->kind == LINK_ASK_DETACH_AND_FORGET);
    return file < 0 ? -EMFILE : attach(h, ask, file);
}

/* Takes `fd`. */
static struct link_answer make_answer(struct helper *h, const struct link_ask *ask, int fd)
{
    struct link_answer said = {.place = ask->place, .error = answer(h, ask, fd)};
    said.forgotten = h->forgotten;
    h->forgotten = 0;
    return said;
}

/* False when nobody asks any more. */
static bool receive(int control, struct link_ask *ret, int *ret_fd)
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

/* Each place that is attached to takes two descriptors: as many as may be had. What goes beyond is refused,
 * and the agent itself keeps its own. */
static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Whether it can be done is found out now, and the epoch's place taken while there is room. */
static int try_all(struct helper *h)
{
    uint64_t count;
    int r = hear_ends(h, true);
    (void)hear_ends(h, false);
    if (r == 0)
        r = link_table_forget_all(bpf_map__fd(h->bpf->maps.thread_links), false, &count);
    return r < 0 ? r : link_trial(h->bpf->progs.thread_leave, bpf_map__fd(h->bpf->maps.link_stats));
}

_Noreturn void link_helper_run(int control, struct link_bpf *bpf)
{
    static struct helper h;
    h.bpf = bpf;
    keep_only(control, bpf); /* while there are few that may be open */
    helper_process_become("sonde-links");
    raise_limit();
    struct link_answer said = {.place = LINK_FILES_MAX, .error = try_all(&h)};
    struct link_ask ask;
    int fd;
    while (send(control, &said, sizeof(said), MSG_NOSIGNAL) == sizeof(said) && receive(control, &ask, &fd))
        said = make_answer(&h, &ask, fd);
    for (uint32_t i = 0; i < LINK_FILES_MAX; i++)
        (void)detach(&h, i, true);
    _exit(0);
}
