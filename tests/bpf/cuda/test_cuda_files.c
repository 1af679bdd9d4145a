/* The signal finds libcuda in a program that maps it: here a copy of the test program, whose file has such a name and
 * exports functions like those of the library. Kinds of calls that cannot be counted have no series, and after calls
 * were missed the counts begin again. */
#include "../watch.h"

#include "base/cleanup.h"
#include "resolve/process/processes.h"
#include "signals/signals.h"
#include "sources/cuda/cuda.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the program ---- */

void cuLaunchKernel(void);
void cuMemcpyHtoD_v2(void);

/* Begins with an instruction that the kernel emulates. */
__attribute__((noinline, patchable_function_entry(1))) void cuLaunchKernel(void)
{
    __asm__ volatile("");
}

/* The kernel would single-step its first instruction. */
#if defined(__x86_64__)
__asm__(".text\n.globl cuMemcpyHtoD_v2\n.type cuMemcpyHtoD_v2, @function\n"
        "cuMemcpyHtoD_v2: xorl %eax, %eax\nret\n.size cuMemcpyHtoD_v2, . - cuMemcpyHtoD_v2\n");
#else
void cuMemcpyHtoD_v2(void)
{
}
#endif

/* Makes as many calls of each function as a byte of the standard input says, and copies the byte to the standard
 * output. */
static int call_as_told(void)
{
    unsigned char count;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(STDIN_FILENO, &count, 1) == 1) {
        for (unsigned i = 0; i < count; i++) {
            cuLaunchKernel();
            cuMemcpyHtoD_v2();
        }
        if (write(STDOUT_FILENO, &count, 1) != 1)
            return 1;
    }
    return 0;
}

/* ---- the observer ---- */

struct program {
    char folder[32], path[64];
    pid_t pid;
    int to, from;
};

/* A byte more than the original: whether a file is wanted is decided once for all files with its content. */
static void make_copy(struct program *p)
{
    snprintf(p->folder, sizeof(p->folder), "/tmp/test-cuda-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    snprintf(p->path, sizeof(p->path), "%s/libcuda.so.1", p->folder);
    const int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
              to = open(p->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);
    assert_true(from >= 0 && to >= 0);
    ssize_t n;
    while ((n = sendfile(to, from, NULL, 1 << 20)) > 0)
        ;
    assert_int_equal(n, 0);
    assert_int_equal(write(to, "", 1), 1);
    close(from);
    close(to);
}

static struct program start_program(void)
{
    struct program p;
    int to[2], from[2];
    make_copy(&p);
    assert_int_equal(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), 0);
    p.pid = fork();
    assert_true(p.pid >= 0);
    if (p.pid == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        execl(p.path, "program", "called", NULL);
        _exit(1);
    }
    close(to[0]);
    close(from[1]);
    p.to = to[1];
    p.from = from[0];
    return p;
}

static void call(const struct program *p, unsigned char count)
{
    unsigned char done;
    assert_int_equal(write(p->to, &count, 1), 1);
    assert_int_equal(read(p->from, &done, 1), 1);
}

static void end_program(struct program *p)
{
    close(p->to);
    assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
    close(p->from);
    unlink(p->path);
    rmdir(p->folder);
}

struct observer {
    struct watch w;
    struct processes *processes;
    const struct signal *signal;
    void *self;
};

static struct observer begin_observer(void)
{
    const struct watch_options options = watch_defaults;
    struct observer o = {.w = watch_begin(&source_cuda, &options)};
    assert_int_equal(processes_new(16 << 20, &o.processes), 0);
    for (size_t i = 0; all_signals[i]; i++)
        if (all_signals[i]->source == &source_cuda)
            o.signal = all_signals[i];
    const struct signal_services services = {.filter = &watch_defaults.filter, .processes = o.processes};
    assert_int_equal(o.signal->create(&services, o.signal->defaults, o.w.self, &o.self), 0);
    o.signal->start(o.self);
    return o;
}

static void end_observer(struct observer *o)
{
    o->signal->destroy(o->self);
    processes_free(o->processes);
    watch_end(&o->w);
}

/* The value of the metric's point whose label `label` is `value`; -1: it has none. `label` NULL: of its first point. */
static double metric(const struct observer *o, const char *name, const char *label, const char *value)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    assert_int_equal(metric_set_new(&set), 0);
    o->signal->metrics(o->self, set);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family f = metric_set_family(set, i);
        for (size_t p = 0; strcmp(f.name, name) == 0 && p < f.point_count; p++)
            for (size_t l = 0; l < f.points[p].label_count || !label; l++)
                if (!label ||
                    (strcmp(f.points[p].labels[l].name, label) == 0 && strcmp(f.points[p].labels[l].value, value) == 0))
                    return f.points[p].value;
    }
    return -1;
}

static double launches(const struct observer *o)
{
    return metric(o, "sonde_gpu_process_calls", "call", "launch");
}

/* Waits until so many kinds of calls are attached to. */
static void turn_until(struct observer *o, const struct program *p, double attachments)
{
    const uint32_t pid = (uint32_t)p->pid;
    const struct mapped_processes mapped = {.pids = &pid, .count = 1};
    do {
        usleep(1000);
        assert_int_equal(o->w.source->drain(o->w.self, o->w.batch), 0);
        o->signal->turn(o->self, &mapped);
    } while (metric(o, "sonde_cuda_attachments", NULL, NULL) != attachments ||
             metric(o, "sonde_cuda_attachments_waiting", NULL, NULL) != 0);
}

static void test_calls_are_counted_from_attachment_to_detachment(void **state)
{
    (void)state;
#if !defined(__x86_64__)
    skip();
#endif
    struct program p = start_program();
    call(&p, 1); /* it runs, and maps its file: nothing here reports an exec() to the table of processes */
    struct observer o = begin_observer();
    turn_until(&o, &p, 1);
    call(&p, 200);
    assert_true(launches(&o) == 200);
    assert_true(metric(&o, "sonde_gpu_process_calls", "call", "copy") == -1);
    assert_true(metric(&o, "sonde_gpu_process_synchronize_seconds", NULL, NULL) == -1);
    assert_true(metric(&o, "sonde_cuda_files_declined", "call", "copy") == 1);
    assert_true(metric(&o, "sonde_cuda_files_declined", "call", "launch") == 0);

    o.signal->shed(o.self, SOURCE_DETAIL_NO_OFF_CPU);
    assert_true(launches(&o) == -1);
    turn_until(&o, &p, 0);
    call(&p, 100);
    o.signal->shed(o.self, SOURCE_DETAIL_FULL);
    turn_until(&o, &p, 1);
    call(&p, 30);
    assert_true(launches(&o) == 30);

    const uint32_t pid = (uint32_t)p.pid;
    end_program(&p);
    o.signal->exited(o.self, pid, 0);
    assert_true(launches(&o) == -1);
    end_observer(&o);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_calls_are_counted_from_attachment_to_detachment)};
    (void)argv;
    return argc > 1 ? call_as_told() : cmocka_run_group_tests(tests, NULL, NULL);
}
