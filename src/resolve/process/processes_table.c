/* The operations on the table that both the records (processes.c) and /proc (processes_read.c) need; see
 * processes_table.h. */
#include "resolve/process/processes_table.h"

#include "resolve/process/pods.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <utlist.h>

/* ---- what processes share ---- */

struct service *service_ref(struct service *s)
{
    if (s)
        s->references++;
    return s;
}

static size_t service_bytes(const struct service *s)
{
    return sizeof(*s) + strlen(s->name) + strlen(s->namespace) + strlen(s->version) + strlen(s->attributes) + 4;
}

void service_unref(struct processes *p, struct service *s)
{
    assert(!s || s->references > 0);
    if (!s || --s->references > 0)
        return;
    p->bytes -= service_bytes(s);
    free(s);
}

struct service *service_new(struct processes *p, const struct identity_service *from, const char *attributes)
{
    const char *const texts[] = {from->name, from->namespace, from->version, attributes};
    size_t bytes = array_size(texts);
    for (size_t i = 0; i < array_size(texts); i++)
        bytes += strlen(texts[i]);
    struct service *s = bytes > array_size(texts) ? malloc(sizeof(*s) + bytes) : NULL;
    if (!s)
        return NULL;
    s->references = 1;
    const char **const to[] = {&s->name, &s->namespace, &s->version, &s->attributes};
    char *at = s->text;
    for (size_t i = 0; i < array_size(texts); i++) {
        *to[i] = at;
        at = stpcpy(at, texts[i]) + 1;
    }
    p->bytes += service_bytes(s);
    return s;
}

void processes_set_context(struct processes *p, struct process_entry *e, struct service *context)
{
    p->count.contexts += (context != NULL) - (uint64_t)(e->context != NULL);
    service_unref(p, e->context);
    e->context = context;
}

void processes_drop_context(struct processes *p, struct process_entry *e)
{
    processes_set_context(p, e, NULL);
    e->context_place = (struct process_context_place){0};
    e->context_due_ns = e->context_pause_s = 0;
}

static void free_resource(struct processes *p, struct process_resource *r)
{
    path_release(r->executable);
    cgroup_unref(r->cgroup);
    service_unref(p, r->service);
    service_unref(p, r->context);
    pods_unref(r->pods);
    free(r);
}

void processes_retire_resource(struct processes *p, struct process_entry *e)
{
    if (!e->resource)
        return;
    e->resource->next = p->retired;
    p->retired = e->resource;
    e->resource = NULL;
    p->bytes -= sizeof(*p->retired);
    p->retired_bytes += sizeof(*p->retired);
}

void processes_free_retired(struct processes *p)
{
    while (p->retired) {
        struct process_resource *r = p->retired;
        p->retired = r->next;
        free_resource(p, r);
    }
    p->retired_bytes = 0;
}

/* ---- entries ---- */

struct process_entry *processes_lookup(struct processes *p, uint32_t pid)
{
    struct process_entry *e;
    HASH_FIND(hh, p->by_pid, &pid, sizeof(pid), e);
    return e;
}

struct process_entry *processes_add(struct processes *p, uint32_t pid, uint64_t start_ns, uint64_t start_boot_ns)
{
    struct process_entry *e = calloc(1, sizeof(*e));
    if (!e)
        return NULL;
    e->process = (struct process){.pid = pid, .start_time_ns = start_ns, .mapping_version = ++p->version};
    e->start_boot_ns = start_boot_ns;
    e->generation = p->generation;
    HASH_ADD(hh, p->by_pid, process.pid, sizeof(e->process.pid), e);
    DL_APPEND(p->used, e);
    p->bytes += sizeof(*e);
    return e;
}

static void refresh_view(struct processes *p, struct process_entry *e)
{
    e->process.mappings = e->image ? e->image->mappings : NULL;
    e->process.mapping_count = e->image ? e->image->count : 0;
    e->process.mapping_version = ++p->version;
}

static void drop_image(struct processes *p, struct process_entry *e)
{
    if (!e->image)
        return;
    if (!e->process.exited)
        image_live(e->image, -1);
    if (e->image->references == 1)
        p->bytes -= image_bytes(e->image);
    image_unref(e->image);
    e->image = NULL;
}

void processes_set_image(struct processes *p, struct process_entry *e, struct image *image)
{
    drop_image(p, e);
    e->image = image;
    if (image) {
        if (image->references == 1)
            p->bytes += image_bytes(image);
        if (!e->process.exited)
            image_live(image, 1);
    }
    refresh_view(p, e);
}

/* Names of processes that have exited are kept after the rest is freed: a compiler's processes live for milliseconds,
 * and requests that waited for their CPU are explained later. */
static void keep_name(struct processes *p, const struct process_entry *e)
{
    struct exited_name *name = &p->exited_names[e->process.pid % EXITED_NAMES_MAX];
    name->pid = e->process.pid;
    memcpy(name->command, e->command, sizeof(name->command));
}

void processes_remove(struct processes *p, struct process_entry *e)
{
    drop_image(p, e);
    cgroup_unref(e->cgroup);
    service_unref(p, e->service);
    processes_drop_context(p, e);
    processes_retire_resource(p, e);
    if (p->check == e)
        p->check = e->hh.next;
    keep_name(p, e);
    HASH_DELETE(hh, p->by_pid, e);
    if (e->process.exited)
        DL_DELETE(p->exited, e);
    else
        DL_DELETE(p->used, e);
    p->bytes -= sizeof(*e);
    free(e);
}

void processes_mark_exited(struct processes *p, struct process_entry *e, uint64_t time_ns)
{
    if (e->process.exited)
        return;
    image_live(e->image, -1);
    e->process.exited = true;
    e->exit_time_ns = time_ns;
    DL_DELETE(p->used, e);
    DL_APPEND(p->exited, e);
}

/* ---- mappings ---- */

bool processes_program_start(const struct processes *p, const struct process_entry *e, struct program_start *ret)
{
    return p->find_start && e->process.exec_time_ns &&
           p->find_start(p->find_start_context, e->process.pid, e->process.exec_time_ns, ret);
}

/* The namespace is an inode number of the kernel's nsfs: reading it touches no other file system. */
static void find_view(const struct processes *p, struct process_entry *e)
{
    char name[40];
    struct stat st;
    struct program_start start;
    if (e->view_known)
        return;
    snprintf(name, sizeof(name), "/proc/%" PRIu32 "/ns/mnt", e->process.pid);
    if (processes_program_start(p, e, &start) && start.mount_namespace)
        e->view = start.mount_namespace;
    else if (stat(name, &st) == 0)
        e->view = st.st_ino;
    e->view_known = true;
}

void processes_fill_sight(struct processes *p, struct process_entry *e, struct object_sight *sight)
{
    sight->pid_count = 0;
    if (p->is_replay)
        return;
    find_view(p, e);
    sight->view = e->view;
    sight->by_exec = e->process.exec_time_ns != 0;
    sight->pids[sight->pid_count++] = e->process.pid;
    uint32_t parent = e->parent_pid;
    while (parent > 1 && sight->pid_count < OBJECT_PIDS_MAX) {
        sight->pids[sight->pid_count++] = parent;
        const struct process_entry *up = processes_lookup(p, parent);
        parent = up ? up->parent_pid : 0;
    }
}

void processes_name_mapping(struct processes *p, const struct object_sight *sight, struct process_mapping *m)
{
    if (objects_get(p->objects, sight, &m->object) < 0) /* anonymous code */
        return;
    m->path = paths_get(&p->paths, sight->path);
    if (m->path)
        return;
    objects_release(m->object);
    m->object = NULL;
}

void processes_map(struct processes *p, struct process_entry *e, const struct object_sight *sight, uint64_t file_offset)
{
    struct process_mapping mapping = {.start = sight->start, .end = sight->end, .file_offset = file_offset};
    size_t before = e->image && e->image->references == 1 ? image_bytes(e->image) : 0;
    struct image *image = e->image ? image_own(e->image, !e->process.exited) : image_new();
    if (!image)
        return;
    if (!e->image && !e->process.exited)
        image_live(image, 1);
    e->image = image;
    processes_name_mapping(p, sight, &mapping);
    image_map(image, &mapping);
    p->bytes += image_bytes(image) - before;
    refresh_view(p, e);
}

void processes_set_command(struct process_entry *e, const char command[16], uint64_t time_ns)
{
    memcpy(e->command, command, sizeof(e->command));
    e->command[sizeof(e->command) - 1] = '\0';
    e->command_ns = time_ns;
}
