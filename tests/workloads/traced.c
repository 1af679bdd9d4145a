/* The example of docs/traces.md, and a workload: a model server of one file that traces its requests as Triton
 * does.
 *
 *     traced [--trace-config ...] PORT
 *         serves POST /v2/models/{simple,ens,bls}/infer and the trace protocol
 *
 *     traced [--trace-config ...] --load N [wait]
 *         as fast as possible, N requests on each of two threads; with `wait` after a SIGUSR1
 *
 * `simple` computes, `ens` is an ensemble of simple, `bls` calls simple itself; a body that has no "inputs"
 * is refused. `llm` answers token by token (POST /v2/models/llm/generate_stream, and "max_tokens", "each",
 * "delay_ms", "fail_after", "finish" (a number, for a custom reason) in its
 * body); GET /metrics has its durations. Exits on SIGTERM, or when --load is finished, with a line of counts. */
#include <sonde/trace.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sonde_trace_manager *manager;
static struct sonde_trace_model *simple, *ens, *bls, *llm;

static void on_error(void *argument, int error, const char *message)
{
    (void)argument;
    fprintf(stderr, "traced: %s (errno %d)\n", message, error);
}

/* One step in the queue and in the backend. The timestamps cost nothing where the request is not traced: `t` is NULL. */
static void compute(struct sonde_trace *t, const int32_t *input, int32_t *output)
{
    static const int64_t shape[] = {1, 4};
    struct sonde_trace_tensor in = {"INPUT0", "INT32", shape, 2, input, 4 * sizeof(*input)};
    struct sonde_trace_tensor out = {"OUTPUT0", "INT32", shape, 2, output, 4 * sizeof(*output)};
    sonde_trace_timestamp(t, SONDE_TRACE_REQUEST_START);
    sonde_trace_timestamp(t, SONDE_TRACE_QUEUE_START);
    sonde_trace_tensor(t, SONDE_TRACE_TENSOR_QUEUE_INPUT, &in);
    sonde_trace_timestamp(t, SONDE_TRACE_COMPUTE_START);
    sonde_trace_timestamp(t, SONDE_TRACE_COMPUTE_INPUT_END);
    for (int i = 0; i < 4; i++)
        output[i] = 2 * input[i];
    sonde_trace_timestamp(t, SONDE_TRACE_COMPUTE_OUTPUT_START);
    sonde_trace_tensor(t, SONDE_TRACE_TENSOR_BACKEND_OUTPUT, &out);
    sonde_trace_timestamp(t, SONDE_TRACE_COMPUTE_END);
    sonde_trace_timestamp(t, SONDE_TRACE_REQUEST_END);
}

struct request_id {
    const char *at; /* NULL: none */
    size_t size;
};

/* An ensemble queues and does not compute; its steps are children. */
static void run_ensemble(struct sonde_trace *t, struct request_id id, const int32_t *input, int32_t *output)
{
    sonde_trace_timestamp(t, SONDE_TRACE_REQUEST_START);
    sonde_trace_timestamp(t, SONDE_TRACE_QUEUE_START);
    struct sonde_trace *step = sonde_trace_child(t, simple);
    sonde_trace_request_id(step, id.at, id.size); /* as Triton does for ensembles, but not for models that call others */
    sonde_trace_enter(step);
    compute(step, input, output);
    sonde_trace_leave(step);
    sonde_trace_end(step, SONDE_TRACE_OK, NULL);
    sonde_trace_timestamp(t, SONDE_TRACE_REQUEST_END);
}

/* A model that calls another one while it computes. */
static void run_bls(struct sonde_trace *t, const int32_t *input, int32_t *output)
{
    sonde_trace_timestamp(t, SONDE_TRACE_REQUEST_START);
    sonde_trace_timestamp(t, SONDE_TRACE_QUEUE_START);
    sonde_trace_timestamp(t, SONDE_TRACE_COMPUTE_START);
    sonde_trace_timestamp(t, SONDE_TRACE_COMPUTE_INPUT_END);
    struct sonde_trace *inner = sonde_trace_child(t, simple);
    sonde_trace_enter(inner);
    compute(inner, input, output);
    sonde_trace_leave(inner);
    sonde_trace_end(inner, SONDE_TRACE_OK, NULL);
    sonde_trace_timestamp(t, SONDE_TRACE_COMPUTE_OUTPUT_START);
    sonde_trace_timestamp(t, SONDE_TRACE_COMPUTE_END);
    sonde_trace_timestamp(t, SONDE_TRACE_REQUEST_END);
}

static void run(struct sonde_trace_model *model, struct sonde_trace *t, struct request_id id)
{
    const int32_t input[4] = {1, 2, 3, 4};
    int32_t output[4];
    if (model == ens)
        run_ensemble(t, id, input, output);
    else if (model == bls)
        run_bls(t, input, output);
    else
        compute(t, input, output);
}

/* --- serving --------------------------------------------------------------------------------- */

static void reply(int fd, unsigned status, const char *body)
{
    dprintf(
        fd,
        "HTTP/1.1 %u X\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
        status, strlen(body), body);
}

static struct sonde_trace_model *model_of(const char *path)
{
    return strcmp(path, "/v2/models/simple/infer") == 0 ? simple
           : strcmp(path, "/v2/models/ens/infer") == 0  ? ens
           : strcmp(path, "/v2/models/bls/infer") == 0  ? bls
                                                        : NULL;
}

static void infer(int fd, struct sonde_trace_model *model, struct sonde_trace_request request,
                  const char *body, uint64_t received_ns)
{
    struct sonde_trace *t = sonde_trace_start(model, &request);
    sonde_trace_enter(t);
    sonde_trace_timestamp_at(t, SONDE_TRACE_HTTP_RECV_START, received_ns);
    sonde_trace_timestamp(t, SONDE_TRACE_HTTP_RECV_END);
    const char *id = strstr(body, "\"id\""); /* a real server parses its JSON */
    id = id ? strchr(id + 4, '"') : NULL;
    const struct request_id known = id ? (struct request_id){id + 1, strcspn(id + 1, "\"")} : (struct request_id){0};
    sonde_trace_request_id(t, known.at, known.size);
    bool good = strstr(body, "\"inputs\"") != NULL;
    if (good) {
        run(model, t, known);
        sonde_trace_timestamp(t, SONDE_TRACE_INFER_RESPONSE_COMPLETE);
    }
    sonde_trace_timestamp(t, SONDE_TRACE_HTTP_SEND_START);
    reply(fd, good ? 200 : 400, good ? "{\"outputs\":[]}" : "{\"error\":\"no inputs\"}");
    sonde_trace_timestamp(t, SONDE_TRACE_HTTP_SEND_END);
    sonde_trace_leave(t);
    sonde_trace_end(t, good ? SONDE_TRACE_OK : SONDE_TRACE_ERROR, good ? NULL : "no inputs");
}

static long number_in(const char *body, const char *name, long otherwise)
{
    const char *at = strstr(body, name); /* a real server parses its JSON */
    return at ? strtol(at + strlen(name), NULL, 10) : otherwise;
}

/* An answer in tokens, in the form of server-sent events. Every request is counted, traced or not. */
static void generate(int fd, const struct sonde_trace_request *request, const char *body)
{
    long tokens = number_in(body, "\"max_tokens\":", 4), each = number_in(body, "\"each\":", 1), sent = 0;
    long delay_ms = number_in(body, "\"delay_ms\":", 0), fail_after = number_in(body, "\"fail_after\":", -1);
    char finish[32] = "stop";
    long number = number_in(body, "\"finish\":", -1);
    struct sonde_trace *t = sonde_trace_start(llm, request);
    struct sonde_trace_generation g;
    if (number >= 0)
        snprintf(finish, sizeof(finish), "stop%ld", number);
    sonde_trace_timestamp(t, SONDE_TRACE_HTTP_RECV_START);
    sonde_trace_timestamp(t, SONDE_TRACE_REQUEST_START);
    sonde_trace_generation_begin(&g, llm, t, "chat");
    dprintf(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
    while (sent < tokens && sent != fail_after) {
        long now = each < tokens - sent ? each : tokens - sent;
        usleep((useconds_t)delay_ms * 1000);
        sonde_trace_generation_tokens(&g, (uint32_t)now);
        dprintf(fd, "data: {\"tokens\":%ld}\n\n", now);
        sent += now;
    }
    struct sonde_trace_generation_result result = {.size = sizeof(result),
                                                   .input_tokens = number_in(body, "\"input\":", -1),
                                                   .output_tokens = -1,
                                                   .response_id = "cmpl-1",
                                                   .response_model = "llm-v1",
                                                   .finish_reason = sent == tokens ? finish : NULL,
                                                   .error_type = sent == tokens ? NULL : "overloaded"};
    sonde_trace_generation_end(&g, &result);
    sonde_trace_timestamp(t, SONDE_TRACE_REQUEST_END);
    sonde_trace_end(t, sent == tokens ? SONDE_TRACE_OK : SONDE_TRACE_ERROR, NULL);
}

static void reply_metrics(int fd)
{
    char *text;
    if (sonde_trace_metrics(manager, &text) < 0)
        return;
    reply(fd, 200, text);
    sonde_trace_free(text);
}

static char *cut_line(char *text)
{
    text[strcspn(text, "\r")] = '\0';
    return text;
}

static void serve(int fd)
{
    char data[65536], method[16], path[1024], *answer, *body = NULL;
    size_t size = 0, length = 0;
    unsigned status;
    uint64_t received_ns = 0;
    for (ssize_t n; !body || size < (size_t)(body - data) + length; size += (size_t)n) {
        n = read(fd, data + size, sizeof(data) - 1 - size);
        if (n <= 0)
            return;
        received_ns = received_ns ? received_ns : sonde_trace_now_ns();
        data[size + (size_t)n] = '\0';
        char *end = strstr(data, "\r\n\r\n"), *header = strcasestr(data, "\r\nContent-Length:");
        body = end ? end + 4 : NULL;
        length = body && header && header < end ? strtoul(header + 17, NULL, 10) : 0;
    }
    if (sscanf(data, "%15s %1023s", method, path) != 2)
        return;
    body[-4] = '\0';
    char *state = strcasestr(data, "\r\ntracestate: "), *parent = strcasestr(data, "\r\ntraceparent: ");
    const struct sonde_trace_request request = {.size = sizeof(request),
                                                .tracestate = state ? cut_line(state + 14) : NULL,
                                                .traceparent = parent ? cut_line(parent + 15) : NULL};
    struct sonde_trace_model *model = model_of(path);
    if (model) {
        infer(fd, model, request, body, received_ns);
    } else if (strcmp(path, "/v2/models/llm/generate_stream") == 0) {
        generate(fd, &request, body);
    } else if (strcmp(path, "/metrics") == 0) {
        reply_metrics(fd);
    } else if (sonde_trace_http(manager, method, path, body, length, &status, &answer) == 0) {
        reply(fd, status, answer);
        sonde_trace_free(answer);
    } else {
        reply(fd, 404, "{\"error\":\"Not Found\"}");
    }
}

static volatile sig_atomic_t ended;

static void end(int signal)
{
    (void)signal;
    ended = 1;
}

static int listen_on(const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 64) < 0) {
        perror("traced");
        exit(1);
    }
    socklen_t size = sizeof(address);
    getsockname(fd, (struct sockaddr *)&address, &size);
    printf("listening on %u\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

/* --- load ------------------------------------------------------------------------------------ */

static void *load(void *argument)
{
    struct sonde_trace_model *const models[] = {simple, ens, bls};
    for (long i = 0; i < *(const long *)argument; i++) {
        struct sonde_trace_request request = {
            .size = sizeof(request), .request_id = "load", .request_id_size = 4};
        struct sonde_trace *t = sonde_trace_start(models[i % 3], &request);
        sonde_trace_enter(t);
        sonde_trace_timestamp(t, SONDE_TRACE_HTTP_RECV_START);
        sonde_trace_timestamp(t, SONDE_TRACE_HTTP_RECV_END);
        run(models[i % 3], t, (struct request_id){request.request_id, request.request_id_size});
        sonde_trace_timestamp(t, SONDE_TRACE_HTTP_SEND_START);
        sonde_trace_timestamp(t, SONDE_TRACE_HTTP_SEND_END);
        sonde_trace_leave(t);
        sonde_trace_end(t, SONDE_TRACE_OK, NULL);
        if (i % 64 == 0)
            usleep(100); /* as a server would: the queue is for bursts */
    }
    return NULL;
}

static void run_load(long requests, bool waits)
{
    pthread_t thread;
    sigset_t start;
    int got;
    sigemptyset(&start);
    sigaddset(&start, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &start, NULL);
    printf(waits ? "waiting\n" : "loading\n");
    fflush(stdout);
    if (waits)
        sigwait(&start, &got);
    if (pthread_create(&thread, NULL, load, &requests) != 0)
        exit(1);
    load(&requests);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    char why[SONDE_TRACE_WHY_SIZE] = "out of memory";
    struct sonde_trace_config *config = NULL;
    struct sonde_trace_options options = {.size = sizeof(options), .on_error = on_error};
    struct sigaction act = {.sa_handler = end};
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGINT, &act, NULL);
    signal(SIGPIPE, SIG_IGN);
    int r = sonde_trace_config_new(&config);
    if (r == 0)
        r = sonde_trace_config_take(config, &argc, argv, why, sizeof(why));
    if (r == 0)
        r = sonde_trace_manager_new(config, &options, &manager, why, sizeof(why));
    sonde_trace_config_free(config);
    if (r < 0) {
        fprintf(stderr, "%s\n", why);
        return 1;
    }
    if (sonde_trace_model_new(manager, "simple", 1, &simple) < 0 ||
        sonde_trace_model_new(manager, "ens", 1, &ens) < 0 ||
        sonde_trace_model_new(manager, "bls", 1, &bls) < 0 ||
        sonde_trace_model_new(manager, "llm", 1, &llm) < 0)
        return 1;
    if (argc >= 3 && strcmp(argv[1], "--load") == 0) {
        run_load(atol(argv[2]), argc > 3);
    } else if (argc == 2) {
        int server = listen_on(argv[1]);
        while (!ended) {
            int fd = accept4(server, NULL, NULL, SOCK_CLOEXEC);
            if (fd >= 0) {
                serve(fd);
                close(fd);
            }
        }
    } else {
        fprintf(stderr,
                "usage: traced [--trace-config [<mode>,]<setting>=<value>]... PORT | --load N [wait]\n");
        return 2;
    }
    struct sonde_trace_stats s;
    sonde_trace_manager_flush(manager, 60000);
    sonde_trace_manager_stats(manager, &s, sizeof(s));
    printf("sampled %llu written %llu dropped_queue %llu dropped_write %llu write_errors %llu "
           "spans_rejected %llu generations %llu metrics_lost %llu\n",
           (unsigned long long)s.sampled, (unsigned long long)s.written, (unsigned long long)s.dropped_queue,
           (unsigned long long)s.dropped_write, (unsigned long long)s.write_errors,
           (unsigned long long)s.spans_rejected, (unsigned long long)s.generations,
           (unsigned long long)s.metrics_lost);
    sonde_trace_model_free(simple);
    sonde_trace_model_free(ens);
    sonde_trace_model_free(bls);
    sonde_trace_model_free(llm);
    sonde_trace_manager_free(manager);
    return 0;
}
