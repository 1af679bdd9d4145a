/* Loads probes/usdt.bpf.c once per context, because which arguments are strings depends on the file, and attaches it
 * to every file of that context; see usdt_watch.h. libbpf finds the probe sites in the file and makes the kernel
 * increment the semaphore in each process. */
#include "sources/usdt/usdt_watch.h"

#include "sources/attach/missed_runs.h"
#include "sources/attach/preempt_count.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "usdt.skel.h"

#include <errno.h>
#include <stdlib.h>

struct program {
    struct usdt_watch *watch;
    struct usdt_bpf *bpf;
    const void *context;
};

struct usdt_watch_link {
    struct bpf_link *link; /* NULL: free */
};

struct usdt_watch {
    usdt_watch_take *take;
    void *context;
    struct ring_buffer *rings;
    struct program programs[USDT_WATCH_CONTEXTS_MAX];
    size_t program_count;
    struct usdt_watch_link links[USDT_WATCH_LINKS_MAX];
};

static int take_firing(void *context, void *data, size_t size)
{
    const struct program *p = context;
    return size < sizeof(struct usdt_firing) ? 0 : p->watch->take(p->watch->context, p->context, data);
}

int usdt_watch_new(usdt_watch_take *take, void *context, struct usdt_watch **ret)
{
    struct usdt_watch *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->take = take;
    w->context = context;
    *ret = w;
    return 0;
}

void usdt_watch_free(struct usdt_watch *w)
{
    if (!w)
        return;
    ring_buffer__free(w->rings);
    for (size_t i = 0; i < USDT_WATCH_LINKS_MAX; i++)
        usdt_watch_remove(&w->links[i]);
    for (size_t i = 0; i < w->program_count; i++)
        usdt_bpf__destroy(w->programs[i].bpf);
    free(w);
}

static int add_ring(struct usdt_watch *w, struct program *p)
{
    const int fd = bpf_map__fd(p->bpf->maps.firings);
    if (w->rings)
        return ring_buffer__add(w->rings, fd, take_firing, p);
    w->rings = ring_buffer__new(fd, take_firing, p, NULL);
    return w->rings ? 0 : -errno;
}

static int load_program(struct usdt_watch *w, struct program *p, uint32_t texts)
{
    p->bpf = usdt_bpf__open();
    if (!p->bpf)
        return -errno;
    p->bpf->rodata->texts = texts;
    p->bpf->rodata->has_preempt_disable = preempt_count_find().has_preempt_disable;
    int r = usdt_bpf__load(p->bpf);
    return r < 0 ? r : add_ring(w, p);
}

static int get_program(struct usdt_watch *w, const struct usdt_watch_target *of, struct program **ret)
{
    for (size_t i = 0; i < w->program_count; i++)
        if (w->programs[i].context == of->context) {
            *ret = &w->programs[i];
            return 0;
        }
    if (w->program_count == USDT_WATCH_CONTEXTS_MAX)
        return -ENOSPC;
    if (libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_get_attach_cookie, NULL) != 1)
        return -ENOTSUP;
    struct program *p = &w->programs[w->program_count];
    *p = (struct program){.watch = w, .context = of->context};
    int r = load_program(w, p, of->texts);
    if (r < 0) {
        usdt_bpf__destroy(p->bpf);
        return r;
    }
    w->program_count++;
    *ret = p;
    return 0;
}

static int attach_probe(struct usdt_watch *w, const struct usdt_watch_target *of, struct usdt_watch_link *link)
{
    struct program *p;
    int r = get_program(w, of, &p);
    if (r < 0)
        return r;
    link->link = bpf_program__attach_usdt(p->bpf->progs.fired, of->pid, of->path, of->provider, of->name, NULL);
    return link->link ? 0 : -errno;
}

int usdt_watch_add(struct usdt_watch *w, const struct usdt_watch_target *target, struct usdt_watch_link **ret)
{
    struct usdt_watch_link *link = w->links, *end = w->links + USDT_WATCH_LINKS_MAX;
    while (link < end && link->link)
        link++;
    if (link == end)
        return -ENOSPC;
    libbpf_print_fn_t before = libbpf_set_print(NULL); /* the caller reports the error */
    int r = attach_probe(w, target, link);
    libbpf_set_print(before);
    if (r == 0)
        *ret = link;
    return r;
}

void usdt_watch_remove(struct usdt_watch_link *link)
{
    bpf_link__destroy(link->link);
    link->link = NULL;
}

int usdt_watch_fd(const struct usdt_watch *w)
{
    return w->rings ? ring_buffer__epoll_fd(w->rings) : -1;
}

int usdt_watch_poll(struct usdt_watch *w)
{
    int r = w->rings ? ring_buffer__consume(w->rings) : 0;
    return r < 0 ? r : 0;
}

uint64_t usdt_watch_lost(const struct usdt_watch *w)
{
    uint64_t lost = 0;
    for (size_t i = 0; i < w->program_count; i++)
        lost += w->programs[i].bpf->bss->lost + missed_runs(w->programs[i].bpf->obj);
    return lost;
}
