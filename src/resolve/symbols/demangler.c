/* Demangles names in the confined process; see demangler.h. A name, and the demangled one, is one message. */
#include "resolve/symbols/demangler.h"

#include "base/clock.h"
#include "base/turn_time.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

#define CPU_MAX_NS   10000000ull /* of one name; the longest ones of real programs take some 100 us */
#define WAIT_MAX_MS  100         /* on a busy node, until the process gets a CPU */
#define WAIT_STEP_MS 5

/* -EAGAIN: the process has had no CPU time for the name yet; -EPIPE: it was ended, by the name or because of it. */
static int wait_for_name(struct name_process *p, const struct name_message **ret)
{
    const uint64_t end_ns = clock_monotonic_ns() + turn_time_wait_ms(WAIT_MAX_MS) * 1000000ull;
    for (;;) {
        const int r = name_process_receive(p, WAIT_STEP_MS, ret);
        if (r == 0) /* the process is not trusted: one message with one text */
            return (*ret)->is_last && (*ret)->size && !(*ret)->data[(*ret)->size - 1] ? 0 : -EPIPE;
        if (r == -EPIPE)
            return r;
        if (clock_monotonic_ns() >= end_ns) {
            name_process_abandon(p);
            return -EAGAIN;
        }
    }
}

int demangler_demangle(struct name_process *p, const char *symbol, char out[DEMANGLED_MAX])
{
    const struct name_message *reply;
    const size_t bytes = strlen(symbol) + 1;
    demangle_copy(symbol, out);
    if (!demangle_is_mangled(symbol))
        return 0;
    int r = name_process_begin(p, NAME_TASK_DEMANGLE, XXH3_64bits(symbol, bytes - 1), CPU_MAX_NS);
    if (r == 0 && name_process_send(p, symbol, bytes, true) < 0)
        r = -EAGAIN;
    if (r == 0)
        r = wait_for_name(p, &reply);
    if (r == 0)
        demangle_copy(reply->data, out);
    return r == -EAGAIN ? -EAGAIN : 0;
}

void demangler_metrics(const struct name_process *p, struct metric_set *set)
{
    const struct name_task_counts *names = name_process_counts(p, NAME_TASK_DEMANGLE),
                                  *files = name_process_counts(p, NAME_TASK_UNPACK);
    metric_add(set, "sonde_self_names_demangled", METRIC_COUNTER, "", "C++ and Rust names that were demangled.",
               (double)(names->begun - names->refused), METRIC_NO_LABELS);
    metric_add(set, "sonde_self_names_refused", METRIC_COUNTER, "",
               "Names shown as they are, since demangling one took too long or ended the process.",
               (double)names->refused, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_names_unanswered", METRIC_COUNTER, "",
               "Times that a name was shown as it is, since the process that demangles was starting, or had no CPU.",
               (double)names->unanswered, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_debugdata_refused", METRIC_COUNTER, "",
               "Sections .gnu_debugdata without names, since unpacking one took too long or ended the process.",
               (double)files->refused, METRIC_NO_LABELS);
}
