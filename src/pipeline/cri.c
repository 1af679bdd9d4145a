/* See cri.h. Uses the OTLP transport (lib/otlp/curl.c); one connection per call, because calls are seconds apart. */
#include "pipeline/cri.h"

#include "base/cleanup.h"
#include "resolve/process/pods.h"

#include "otlp/transport.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SERVICE          "/runtime.v1.RuntimeService/"
#define CALL_MS          5000
#define ANSWER_BYTES_MAX ((size_t)8 << 20) /* includes annotations; the kubelet accepts 16 MiB */

extern const struct otlp_transport OTLP_TRANSPORT_SYMBOL; /* lib/otlp/curl.c */

static const char *const default_sockets[] = {
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

/* strerror is more useful than libcurl's message, which does not mention the UNIX socket. */
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

static int query_pods(const struct cri_options *o, const char *socket, struct pods **ret, char *why)
{
    _cleanup_(call_end) struct call sandboxes = {0}, containers = {0};
    int r = call(&sandboxes, o, socket, SERVICE "ListPodSandbox", why);
    if (r == 0)
        r = call(&containers, o, socket, SERVICE "ListContainers", why);
    if (r < 0)
        return r;
    r = pods_read(&(struct pods_replies){.sandboxes = sandboxes.answer.body,
                                         .sandboxes_size = sandboxes.answer.body_size,
                                         .containers = containers.answer.body,
                                         .containers_size = containers.answer.body_size},
                  o->label_keys, ret);
    if (r < 0)
        snprintf(why, CRI_WHY_BYTES, "%s: the reply is not CRI (%s)", socket, strerror(-r));
    return r;
}

/* Tries the default sockets. Missing ones are skipped; `why` has the error of the first one that exists. */
static int query_default_sockets(const struct cri_options *o, struct pods **ret, char *why)
{
    char other[CRI_WHY_BYTES];
    struct stat st;
    int result = -ENOENT;
    snprintf(why, CRI_WHY_BYTES, "none of %s, %s, %s, %s exists", default_sockets[0], default_sockets[1],
             default_sockets[2], default_sockets[3]);
    for (size_t i = 0; i < array_size(default_sockets); i++) {
        if (stat(default_sockets[i], &st) < 0 || !S_ISSOCK(st.st_mode))
            continue;
        int r = query_pods(o, default_sockets[i], ret, result == -ENOENT ? why : other);
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
        return query_default_sockets(o, ret, why);
    if (stat(o->socket, &st) < 0 || !S_ISSOCK(st.st_mode)) {
        snprintf(why, CRI_WHY_BYTES, "%s: no such socket", o->socket);
        return -ENOENT;
    }
    return query_pods(o, o->socket, ret, why);
}
