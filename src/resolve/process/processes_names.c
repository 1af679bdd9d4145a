/* Names of processes that have exited, kept after the rest is freed: a compiler's processes live for milliseconds, and
 * requests that waited for their CPU are explained later. */
#include "resolve/process/processes_table.h"

#include <string.h>

void processes_keep_name(struct processes *p, const struct process_entry *e)
{
    struct exited_name *name = &p->exited_names[e->process.pid % EXITED_NAMES_MAX];
    name->pid = e->process.pid;
    memcpy(name->command, e->command, sizeof(name->command));
}

void processes_command(struct processes *p, uint32_t pid, char out[16])
{
    const struct process_entry *e = processes_lookup(p, pid);
    const struct exited_name *exited = &p->exited_names[pid % EXITED_NAMES_MAX];
    memset(out, 0, 16);
    if (e)
        memcpy(out, e->command, 15);
    else if (exited->pid == pid)
        memcpy(out, exited->command, 15);
}
