/* See nccl_ras_client.h. The service answers each line; the last command's answer is the object, after which it closes
 * the connection. */
#include "sources/gpu/nccl_ras_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES 65536
#define READS_MAX  16 /* in a turn */

/* TIMEOUT: how many seconds the service waits for other ranks. */
static const char question[] = "CLIENT PROTOCOL 2\nTIMEOUT 3\nSET FORMAT json\nVERBOSE STATUS\n";

static enum nccl_ras_state finish(struct nccl_ras_client *c, enum nccl_ras_state state)
{
    if (c->state == NCCL_RAS_ASKING)
        close(c->fd);
    return c->state = state;
}

void nccl_ras_end(struct nccl_ras_client *c)
{
    (void)finish(c, NCCL_RAS_IDLE);
}

void nccl_ras_ask(struct nccl_ras_client *c, uint16_t port, const uint32_t *pids, size_t count, uint64_t now_ns)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    nccl_ras_end(c);
    *c = (struct nccl_ras_client){.state = NCCL_RAS_FAILED, .begun_ns = now_ns};
    c->parser.pid_count = count < NCCL_PIDS_MAX ? count : NCCL_PIDS_MAX;
    memcpy(c->parser.pids, pids, c->parser.pid_count * sizeof(*pids));
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        return;
    c->state = NCCL_RAS_ASKING;
    if (connect(c->fd, (const struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS)
        (void)finish(c, NCCL_RAS_FAILED);
}

static bool is_not_yet(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOTCONN;
}

/* The lines before the object: "SERVER PROTOCOL 2", "OK". */
static int take_bytes(struct nccl_ras_client *c, const char *data, size_t size)
{
    size_t at = 0;
    if (!c->parser.has_begun) {
        const char *object = memchr(data, '{', size);
        const size_t before = object ? (size_t)(object - data) : size;
        c->is_refused |= memmem(data, before, "ERROR", 5) != NULL; /* of a version without this format */
        at = before;
    }
    c->received += size;
    if (c->is_refused || c->received > NCCL_RAS_MAX_BYTES || nccl_parser_is_done(&c->parser))
        return -EBADMSG;
    const size_t rest = size - at;
    return nccl_parse(&c->parser, data + at, rest);
}

static enum nccl_ras_state read_answer(struct nccl_ras_client *c)
{
    char data[READ_BYTES];
    for (int i = 0; i < READS_MAX; i++) {
        const ssize_t n = recv(c->fd, data, sizeof(data), 0);
        if (n < 0 && is_not_yet())
            return c->state;
        if (n <= 0 || take_bytes(c, data, (size_t)n) < 0)
            return finish(c, NCCL_RAS_FAILED);
        if (nccl_parser_is_done(&c->parser))
            return finish(c, NCCL_RAS_ANSWERED);
    }
    return c->state;
}

enum nccl_ras_state nccl_ras_turn(struct nccl_ras_client *c, uint64_t now_ns)
{
    if (c->state != NCCL_RAS_ASKING)
        return c->state;
    if (now_ns - c->begun_ns >= NCCL_RAS_MAX_NS)
        return finish(c, NCCL_RAS_FAILED);
    if (!c->is_sent) { /* the connection's buffer has room for all of it */
        const ssize_t n = send(c->fd, question, sizeof(question) - 1, MSG_NOSIGNAL);
        if (n < 0 && is_not_yet())
            return c->state;
        if (n != (ssize_t)sizeof(question) - 1)
            return finish(c, NCCL_RAS_FAILED);
        c->is_sent = true;
    }
    return read_answer(c);
}
