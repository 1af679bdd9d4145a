/* See uprobe_helper.h. Single-threaded, one ask at a time. The return of a function is attached before its entry and
 * detached after it, so that no call is begun without its end being seen. */
#include "sources/attach/uprobe_helper.h"

#include "base/cleanup.h"
#include "base/descriptors.h"
#include "base/helper_process.h"
#include "sources/attach/uprobe_link.h"

#include <bpf/libbpf.h>

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

struct attached {
    struct uprobe_link *returns[UPROBE_SITES_MAX], *entries[UPROBE_SITES_MAX];
};

struct helper {
    const struct uprobe_programs *kinds;
    size_t kind_count;
    struct attached places[UPROBE_ATTACHMENTS_MAX];
};

static int attach(struct bpf_program *program, const struct uprobe_ask *ask, uint64_t offset, int fd, bool is_return,
                  struct uprobe_link **ret)
{
    const struct uprobe_place place = {.fd = fd, .file_offset = offset, .pid = ask->pid, .is_return = is_return};
    return uprobe_link_new(program, &place, ret);
}

static void detach_place(struct attached *at)
{
    for (size_t i = 0; i < UPROBE_SITES_MAX; i++)
        uprobe_link_free(at->entries[i]);
    for (size_t i = 0; i < UPROBE_SITES_MAX; i++)
        uprobe_link_free(at->returns[i]);
    *at = (struct attached){0};
}

static int attach_returns(struct helper *h, struct attached *at, const struct uprobe_ask *ask, int fd)
{
    for (size_t i = 0; i < ask->site_count; i++) {
        struct bpf_program *program = h->kinds[ask->sites[i].kind].at_return;
        if (!program)
            continue;
        const int r = attach(program, ask, ask->sites[i].file_offset, fd, true, &at->returns[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

static int attach_entries(struct helper *h, struct attached *at, const struct uprobe_ask *ask, int fd)
{
    for (size_t i = 0; i < ask->site_count; i++) {
        struct bpf_program *program = h->kinds[ask->sites[i].kind].entry;
        if (!program)
            continue;
        const int r = attach(program, ask, ask->sites[i].file_offset, fd, false, &at->entries[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Takes `fd`. */
static int serve(struct helper *h, const struct uprobe_ask *ask, int fd)
{
    _cleanup_close_ int file = fd;
    if (ask->place >= UPROBE_ATTACHMENTS_MAX || ask->site_count > UPROBE_SITES_MAX)
        return -EINVAL;
    struct attached *at = &h->places[ask->place];
    detach_place(at);
    if (!ask->is_on)
        return 0;
    for (size_t i = 0; i < ask->site_count; i++)
        if (ask->sites[i].kind >= h->kind_count)
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
    int kept[2 * UPROBE_KINDS_MAX + 1];
    size_t count = 0;
    for (size_t i = 0; i < h->kind_count; i++) {
        if (h->kinds[i].entry)
            kept[count++] = bpf_program__fd(h->kinds[i].entry);
        if (h->kinds[i].at_return)
            kept[count++] = bpf_program__fd(h->kinds[i].at_return);
    }
    kept[count++] = control;
    helper_process_keep_only(kept, count);
}

_Noreturn void uprobe_helper_run(int control, const char *name, const struct uprobe_programs *kinds, size_t kind_count)
{
    static struct helper h;
    struct uprobe_ask ask;
    h = (struct helper){.kinds = kinds, .kind_count = kind_count};
    keep_only(control, &h);
    helper_process_become(name);
    helper_process_raise_descriptors(); /* each attached site takes up to four */
    for (;;) {
        _cleanup_(descriptors_close) struct descriptors with;
        if (descriptors_receive(control, &ask, sizeof(ask), &with, 0) != (ssize_t)sizeof(ask))
            break;
        const struct uprobe_answer answer = {ask.place, serve(&h, &ask, take_fd(&with.fds[0]))};
        if (send(control, &answer, sizeof(answer), MSG_NOSIGNAL) != sizeof(answer))
            break;
    }
    for (size_t i = 0; i < UPROBE_ATTACHMENTS_MAX; i++)
        detach_place(&h.places[i]);
    _exit(0);
}
