/* See cri.h. The call is made by the code that sends OTLP (lib/otlp/curl.c); a connection is one call's, for none is
 * due for seconds. */
#include "agent/cri.h"

#include "base/cleanup.h"
#include "resolve/process/pods.h"

#include "otlp/transport.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SERVICE          "/runtime.v1.RuntimeService/"
#define CALL_MS          5000
#define ANSWER_BYTES_MAX ((size_t)8 << 20) /* annotations are in it, too; the kubelet takes 16 MiB */

extern const struct otlp_transport OTLP_TRANSPORT_SYMBOL; /* lib/otlp/curl.c */

static const char *const usual_sockets[] = {
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/cri-dockerd.sock",
    "/run/k3s/containerd/containerd.sock",
};

struct call {
    const struct otlp_transport *transport;
    void *connection;
    struct otlp_answer answer;
};

static void call_end(struct call *c)
{
    if (c->connection)
        c->transport->close(c->connection);
}

/* The words of a -errno say more than libcurl's, which knows of no UNIX socket. */
static int call(struct call *c, const struct cri_options *o, const char *socket, const char *rpc, char *why)
{
    c->transport = &OTLP_TRANSPORT_SYMBOL;
    const struct otlp_transport_options options = {.url = "http://localhost",
                                                   .unix_socket = socket,
                                                   .rpc = rpc,
                                                   .headers = "",
                                                   .certificate = "",
                                                   .client_certificate = "",
                                                   .client_key = "",
                                                   .user_agent = "sonde/" SONDE_VERSION,
                                                   .answer_bytes_max = ANSWER_BYTES_MAX,
                                                   .timeout_ms = CALL_MS,
                                                   .is_overdue = o->is_over,
                                                   .argument = o->context};
    int r = c->transport->open(&options, &c->connection, c->answer.why, sizeof(c->answer.why));
    if (r == 0)
        r = c->transport->post(c->connection, "", 0, &c->answer);
    if (r == 0 && c->answer.verdict != OTLP_ACCEPTED)
        r = -EPROTO;
    else if (r == 0 && !c->answer.body)
        r = -EBADMSG;
    if (r < 0)
        snprintf(why, CRI_WHY_BYTES, "%s: %s", socket,
                 r == -EIO || r == -EPROTO || r == -ECANCELED || r == -ENOPKG ? c->answer.why : strerror(-r));
    return r;
}

static int ask(const struct cri_options *o, const char *socket, struct pods **ret, char *why)
{
    _cleanup_(call_end) struct call sandboxes = {0}, containers = {0};
    int r = call(&sandboxes, o, socket, SERVICE "ListPodSandbox", why);
    if (r == 0)
        r = call(&containers, o, socket, SERVICE "ListContainers", why);
    if (r < 0)
        return r;
    r = pods_read(&(struct pods_answers){.sandboxes = sandboxes.answer.body,
                                         .sandboxes_size = sandboxes.answer.body_size,
                                         .containers = containers.answer.body,
                                         .containers_size = containers.answer.body_size},
                  o->label_keys, ret);
    if (r < 0)
        snprintf(why, CRI_WHY_BYTES, "%s: what it answers is not CRI (%s)", socket, strerror(-r));
    return r;
}

/* Those that are not there are passed over; the reason told is of the first one that is. */
static int ask_usual(const struct cri_options *o, struct pods **ret, char *why)
{
    char other[CRI_WHY_BYTES];
    struct stat st;
    int result = -ENOENT;
    snprintf(why, CRI_WHY_BYTES, "none of %s, %s, %s, %s is here", usual_sockets[0], usual_sockets[1], usual_sockets[2],
             usual_sockets[3]);
    for (size_t i = 0; i < array_size(usual_sockets); i++) {
        if (stat(usual_sockets[i], &st) < 0 || !S_ISSOCK(st.st_mode))
            continue;
        int r = ask(o, usual_sockets[i], ret, result == -ENOENT ? why : other);
        if (r == 0)
            return 0;
        result = result == -ENOENT ? r : result;
    }
    return result;
}

int cri_ask(const struct cri_options *o, struct pods **ret, char why[CRI_WHY_BYTES])
{
    struct stat st;
    if (!o->socket[0])
        return ask_usual(o, ret, why);
    if (stat(o->socket, &st) < 0 || !S_ISSOCK(st.st_mode)) {
        snprintf(why, CRI_WHY_BYTES, "%s: no socket is there", o->socket);
        return -ENOENT;
    }
    return ask(o, o->socket, ret, why);
}
