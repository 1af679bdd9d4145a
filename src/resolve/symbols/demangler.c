/* Demangles names in a confined process; see demangler.h. One packet asks for one name: a number, then the name. The
 * reply repeats the number, since the reply to a question that was given up may still arrive. */
#include "resolve/symbols/demangler.h"

#include "base/clock.h"
#include "base/helper_process.h"
#include "base/sandbox.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <xxhash.h>

#define CPU_MAX_NS   10000000ull  /* of one name; the longest ones of real programs take some 100 us */
#define WAIT_MAX_NS  100000000ull /* on a busy node, until the process gets a CPU */
#define WAIT_STEP_MS 5
#define END_MAX_NS   1000000000ull
#define REST_FACTOR  100 /* after a name that took too long: at most 1 % of a CPU is lost to such names */
#define REST_MIN_NS  1000000000ull
#define REFUSED_MAX  1024 /* names that took too long, by their hash; a newer one replaces an older one */
#define DATA_BYTES   ((uint64_t)64 << 20)

struct packet {
    uint32_t number;
    char text[DEMANGLE_SYMBOL_MAX > DEMANGLED_MAX ? DEMANGLE_SYMBOL_MAX : DEMANGLED_MAX]; /* sent with its NUL */
};

struct demangler {
    pid_t pid; /* 0: there is no process */
    int socket;
    bool is_owed;          /* the last question has no reply yet */
    uint32_t number;       /* of the last question */
    uint64_t hash;         /* of its name */
    uint64_t began_cpu_ns; /* CPU time of the process at that moment */
    uint64_t rests_until_ns;
    uint64_t refused[REFUSED_MAX]; /* 0: none */
    uint64_t asked, unanswered, killed;
};

/* ---- the process ---- */

static size_t packet_size(const struct packet *p)
{
    return offsetof(struct packet, text) + strlen(p->text) + 1;
}

/* Whether a packet that arrived is whole, and its text ends. */
static bool packet_is_valid(const struct packet *p, ssize_t size)
{
    const size_t head = offsetof(struct packet, text);
    return size > (ssize_t)head && (size_t)size <= sizeof(*p) && !p->text[(size_t)size - head - 1];
}

_Noreturn static void run_process(int socket, int parent_pid)
{
    const struct sandbox_limits limits = {.data_bytes = DATA_BYTES, .cpu_seconds = SANDBOX_CPU_UNLIMITED};
    struct packet request, reply;
    int listener = -1;
    helper_process_keep_only(&socket, 1);
    helper_process_become("sonde-names");
    if (sandbox_enter(&limits, parent_pid, &listener) < 0)
        _exit(1);
    closep(&listener); /* nothing is to be opened: every open call fails */
    for (;;) {
        const ssize_t size = read(socket, &request, sizeof(request));
        if (size < 0 && errno == EINTR)
            continue;
        if (!packet_is_valid(&request, size))
            _exit(0);
        reply.number = request.number;
        demangle(request.text, reply.text);
        if (write(socket, &reply, packet_size(&reply)) < 0)
            _exit(0);
    }
}

/* ---- its start and end ---- */

static int start_process(struct demangler *d)
{
    const int parent_pid = getpid();
    pid_t pid;
    int socket;
    const int r = helper_process_fork(&pid, &socket);
    if (r < 0)
        return r;
    if (pid == 0)
        run_process(socket, parent_pid);
    d->pid = pid;
    d->socket = socket;
    return 0;
}

static void end_process(struct demangler *d)
{
    const uint64_t start_ns = clock_monotonic_ns();
    if (!d->pid)
        return;
    closep(&d->socket);
    kill(d->pid, SIGKILL);
    while (waitpid(d->pid, NULL, WNOHANG) == 0 && clock_monotonic_ns() - start_ns < END_MAX_NS)
        poll(NULL, 0, 1);
    d->pid = 0;
    d->is_owed = false;
}

/* Ends the process, remembers the name that it worked on, and leaves it ended in proportion to the time it lost. */
static void give_up(struct demangler *d, uint64_t cpu_ns)
{
    const uint64_t rest_ns = cpu_ns * REST_FACTOR;
    d->refused[d->hash % REFUSED_MAX] = d->hash;
    d->rests_until_ns = clock_monotonic_ns() + (rest_ns > REST_MIN_NS ? rest_ns : REST_MIN_NS);
    d->killed++;
    end_process(d);
}

int demangler_new(struct demangler **ret)
{
    struct demangler *d = calloc(1, sizeof(*d));
    if (!d)
        return -ENOMEM;
    d->socket = -1;
    (void)!start_process(d);
    *ret = d;
    return 0;
}

void demangler_free(struct demangler *d)
{
    if (!d)
        return;
    end_process(d);
    free(d);
}

/* ---- asking ---- */

static uint64_t hash_name(const char *name) /* never 0 */
{
    const uint64_t hash = XXH3_64bits(name, strlen(name));
    return hash ? hash : 1;
}

/* The next reply, or nothing for WAIT_STEP_MS. 0; -EAGAIN: nothing arrived; -EPIPE: the process has ended. */
static int receive(struct demangler *d, int wait_ms, struct packet *ret)
{
    struct pollfd readable = {.fd = d->socket, .events = POLLIN};
    if (poll(&readable, 1, wait_ms) <= 0)
        return -EAGAIN;
    const ssize_t size = recv(d->socket, ret, sizeof(*ret), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return -EAGAIN;
    return packet_is_valid(ret, size) ? 0 : -EPIPE;
}

/* Waits for the reply to the last question. 0; -EAGAIN: the process has had no CPU time for it yet; -EPIPE: it was
 * ended, by the name or because of it. */
static int wait_for_reply(struct demangler *d, uint64_t max_ns, struct packet *ret)
{
    const uint64_t start_ns = clock_monotonic_ns();
    for (;;) {
        const int r = receive(d, max_ns ? WAIT_STEP_MS : 0, ret);
        if (r == 0 && ret->number == d->number) {
            d->is_owed = false;
            return 0;
        }
        const uint64_t now_cpu_ns = clock_process_cpu_ns(d->pid); /* 0: it has ended */
        const uint64_t cpu_ns = now_cpu_ns > d->began_cpu_ns ? now_cpu_ns - d->began_cpu_ns : 0;
        if (r == -EPIPE || cpu_ns > CPU_MAX_NS) {
            give_up(d, cpu_ns);
            return -EPIPE;
        }
        if (clock_monotonic_ns() - start_ns >= max_ns)
            return -EAGAIN;
    }
}

/* Makes sure that there is a process that waits for a question. 0 or -EAGAIN. */
static int get_ready(struct demangler *d)
{
    struct packet late;
    if (d->is_owed && wait_for_reply(d, 0, &late) == -EAGAIN)
        return -EAGAIN;
    if (d->pid)
        return 0;
    return clock_monotonic_ns() < d->rests_until_ns || start_process(d) < 0 ? -EAGAIN : 0;
}

static int ask(struct demangler *d, const char *symbol, uint64_t hash, struct packet *ret)
{
    struct packet request = {.number = d->number + 1};
    memcpy(request.text, symbol, strlen(symbol) + 1);
    d->number++;
    d->hash = hash;
    d->began_cpu_ns = clock_process_cpu_ns(d->pid);
    d->asked++;
    if (send(d->socket, &request, packet_size(&request), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        end_process(d); /* it ended while it waited for a question: no name's fault */
        return -EAGAIN;
    }
    d->is_owed = true;
    return wait_for_reply(d, WAIT_MAX_NS, ret);
}

int demangler_demangle(struct demangler *d, const char *symbol, char out[DEMANGLED_MAX])
{
    demangle_copy(symbol, out);
    if (!demangle_is_mangled(symbol))
        return 0;
    const uint64_t hash = hash_name(symbol);
    if (d->refused[hash % REFUSED_MAX] == hash)
        return 0;
    struct packet reply;
    int r = get_ready(d);
    if (r == 0)
        r = ask(d, symbol, hash, &reply);
    if (r == -EAGAIN)
        d->unanswered++;
    if (r == 0)
        demangle_copy(reply.text, out);
    return r == -EAGAIN ? -EAGAIN : 0;
}

void demangler_metrics(const struct demangler *d, struct metric_set *set)
{
    metric_add(set, "sonde_self_names_demangled", METRIC_COUNTER, "", "C++ and Rust names that were demangled.",
               d->asked - d->killed, METRIC_NO_LABELS);
    metric_add(set, "sonde_self_names_refused", METRIC_COUNTER, "",
               "Names shown as they are, since demangling one took too long or ended the process.", d->killed,
               METRIC_NO_LABELS);
    metric_add(set, "sonde_self_names_unanswered", METRIC_COUNTER, "",
               "Times that a name was shown as it is, since the process that demangles was starting, or had no CPU.",
               d->unanswered, METRIC_NO_LABELS);
}
