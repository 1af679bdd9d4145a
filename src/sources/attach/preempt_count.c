/* BTF lists the per-CPU variables with their offsets in the per-CPU section. The count is a variable of its own or, in
 * Linux 6.2 to 6.14, a member of `pcpu_hot`. */
#include "sources/attach/preempt_count.h"

#include <bpf/btf.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

/* Offset in bytes; -1: no such member, or a bit field. Members of nested anonymous structs and unions count as the
 * struct's own. */
static int64_t offset_of_member(const struct btf *btf, const struct btf_type *type, const char *name, int depth)
{
    const struct btf_member *members = btf_members(type);
    for (unsigned i = 0; i < btf_vlen(type); i++) {
        const uint32_t bit = btf_member_bit_offset(type, i);
        const char *own = btf__name_by_offset(btf, members[i].name_off);
        if (strcmp(own, name) == 0)
            return bit % 8 ? -1 : (int64_t)bit / 8;
        const struct btf_type *inner = own[0] ? NULL : btf__type_by_id(btf, members[i].type);
        if (!inner || !btf_is_composite(inner) || depth == 0)
            continue;
        const int64_t found = offset_of_member(btf, inner, name, depth - 1);
        if (found >= 0)
            return found + bit / 8;
    }
    return -1;
}

#if defined(__aarch64__)
#define PREEMPT_COUNT_IN_THREAD true
#else
#define PREEMPT_COUNT_IN_THREAD false
#endif

struct percpu_offsets {
    int64_t run_queue, count; /* -1: not found */
};

static void take_variable(const struct btf *btf, const struct btf_var_secinfo *variable, struct percpu_offsets *p)
{
    const struct btf_type *var = btf__type_by_id(btf, variable->type);
    const char *name = var ? btf__name_by_offset(btf, var->name_off) : "";
    if (strcmp(name, "runqueues") == 0)
        p->run_queue = variable->offset;
    else if (strcmp(name, "__preempt_count") == 0)
        p->count = variable->offset;
    if (strcmp(name, "pcpu_hot") != 0)
        return;
    const struct btf_type *type = btf__type_by_id(btf, var->type);
    const int64_t member = type && btf_is_composite(type) ? offset_of_member(btf, type, "preempt_count", 3) : -1;
    if (member >= 0)
        p->count = (int64_t)variable->offset + member;
}

static struct preempt_count find_in_btf(void)
{
    struct btf *btf = btf__load_vmlinux_btf();
    const int id = btf ? btf__find_by_name_kind(btf, ".data..percpu", BTF_KIND_DATASEC) : -1;
    const struct btf_type *section = id > 0 ? btf__type_by_id(btf, (unsigned)id) : NULL;
    struct percpu_offsets p = {-1, -1};
    for (unsigned i = 0; section && i < btf_vlen(section); i++)
        take_variable(btf, &btf_var_secinfos(section)[i], &p);
    const bool is_in_thread = PREEMPT_COUNT_IN_THREAD;
    const struct preempt_count found = {
        .distance = is_in_thread                       ? 1
                    : p.run_queue >= 0 && p.count >= 0 ? p.count - p.run_queue
                                                       : 0,
        .has_rdonly_cast = btf && btf__find_by_name_kind(btf, "bpf_rdonly_cast", BTF_KIND_FUNC) > 0,
        .has_preempt_disable = btf && btf__find_by_name_kind(btf, "bpf_preempt_disable", BTF_KIND_FUNC) > 0,
    };
    btf__free(btf);
    return found;
}

/* Since 6.15 the verifier knows of each global function whether it may sleep. */
static bool may_call_functions(void)
{
    struct utsname system;
    unsigned major, minor;
    return uname(&system) == 0 && sscanf(system.release, "%u.%u", &major, &minor) == 2 &&
           (major > 6 || (major == 6 && minor >= 15));
}

struct preempt_count preempt_count_find(void)
{
    static struct preempt_count found;
    static bool is_found;
    if (!is_found)
        found = find_in_btf();
    found.has_preempt_disable_for_functions = found.has_preempt_disable && may_call_functions();
    is_found = true;
    return found;
}
