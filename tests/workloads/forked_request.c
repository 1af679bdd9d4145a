/* Forks while a request is in flight, which only the parent ends; the child makes three requests of its own:
 * `forked_request MODE,SETTING=VALUE`, after a SIGUSR1. Prints the child and its status. */
#include <sonde/trace.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sonde_trace_config *config;
    struct sonde_trace_manager *manager;
    struct sonde_trace_model *model;
    sigset_t start;
    int got, status = 1;
    if (argc < 2 || sonde_trace_config_new(&config) < 0 || sonde_trace_config_set(config, "--trace-config", argv[1], NULL, 0) < 0 ||
        sonde_trace_config_set(config, "--trace-config", "level=TIMESTAMPS", NULL, 0) < 0 ||
        sonde_trace_config_set(config, "--trace-config", "rate=1", NULL, 0) < 0 || sonde_trace_manager_new(config, NULL, &manager, NULL, 0) < 0 ||
        sonde_trace_model_new(manager, "m", 1, &model) < 0)
        return 1;
    sonde_trace_config_free(config);
    sigemptyset(&start);
    sigaddset(&start, SIGUSR1);
    sigprocmask(SIG_BLOCK, &start, NULL);
    printf("waiting\n");
    fflush(stdout);
    sigwait(&start, &got);
    struct sonde_trace *t = sonde_trace_start(model, NULL);
    sonde_trace_enter(t);
    pid_t child = fork();
    if (child == 0) {
        sonde_trace_leave(t);
        sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    }
    for (int i = 0; i < (child == 0 ? 3 : 0); i++) {
        struct sonde_trace *own = sonde_trace_start(model, NULL);
        sonde_trace_enter(own);
        sonde_trace_leave(own);
        sonde_trace_end(own, SONDE_TRACE_OK, NULL);
    }
    if (child == 0)
        _exit(sonde_trace_manager_flush(manager, 20000) != 0);
    waitpid(child, &status, 0);
    sonde_trace_end(t, SONDE_TRACE_OK, NULL);
    sonde_trace_model_free(model);
    sonde_trace_manager_free(manager);
    printf("%d %d\n", child, status);
    return 0;
}
