/* Many processes: `crowd COUNT ROUNDS MILLISECONDS [stay]` starts COUNT processes (fork and exec of itself), which
 * sleep. When all do, they are woken one after the other, two at a time; each works MILLISECONDS of CPU and sleeps
 * again, COUNT * ROUNDS times in total. A member's number is its name (crowd-42) and, digit by digit from the last,
 * the functions that it works in, so a sample identifies its process three times: by pid, name and stack. All exit
 * with the one that started them, even when it is killed: when the work is done, or with `stay` on SIGTERM. Printed in
 * addition to the lines of every workload: `member NUMBER PID`, a line each; `short N WHY` where no more than N could
 * be started; `worked`; at the end how many exited cleanly, how much CPU they used, how often they were preempted, and
 * how much CPU time starting them took here. */
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define DIGITS   4
#define TOGETHER 2
#define TURNS    100 /* descriptors: a byte per turn to work; and a byte per sleeping member */
#define WORDS    101

typedef void digit(unsigned rest, int left, uint64_t until_ns);
static digit *const digits[10];

KEEP static void crowd_leaf(uint64_t until_ns)
{
    while (workload_own_cpu_ns() < until_ns)
        for (volatile int i = 0; i < 5000; i++) {
        }
}

/* Inlined into each. */
__attribute__((always_inline)) static inline void go_on(unsigned rest, int left, uint64_t until_ns)
{
    if (left > 0)
        digits[rest % 10](rest / 10, left - 1, until_ns);
    else
        crowd_leaf(until_ns);
}

#define DIGIT(N)                                                                                                       \
    KEEP static void digit_##N(unsigned rest, int left, uint64_t until_ns)                                             \
    {                                                                                                                  \
        go_on(rest, left, until_ns);                                                                                   \
        STAY;                                                                                                          \
    }
DIGIT(0)
DIGIT(1) DIGIT(2) DIGIT(3) DIGIT(4) DIGIT(5) DIGIT(6) DIGIT(7) DIGIT(8) DIGIT(9) static digit *const digits[10] = {
    digit_0, digit_1, digit_2, digit_3, digit_4, digit_5, digit_6, digit_7, digit_8, digit_9};

KEEP static void crowd_work(unsigned number, double milliseconds)
{
    go_on(number, DIGITS, workload_own_cpu_ns() + (uint64_t)(milliseconds * 1e6));
    STAY;
}

/* The kernel wakes the reader that has waited longest. No turn is pending after the starter has exited. */
static int member(unsigned number, double milliseconds)
{
    char name[16], turn;
    snprintf(name, sizeof(name), "crowd-%u", number);
    prctl(PR_SET_NAME, name);
    while (write(WORDS, "", 1) == 1)
        if (read(TURNS, &turn, 1) == 1)
            crowd_work(number, milliseconds);
        else
            return 0;
    return 1;
}

/* 0, or -errno. */
static int start(unsigned number, char **argv)
{
    char text[16];
    const pid_t starter = getpid(), child = fork();
    if (child < 0)
        return errno;
    if (child == 0) {
        snprintf(text, sizeof(text), "%u", number);
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == starter)
            execl(argv[0], "crowd", "--member", text, argv[3], (char *)NULL);
        _exit(127);
    }
    printf("member %u %d\n", number, (int)child);
    return 0;
}

static int hear(int from)
{
    char word;
    ssize_t n;
    while ((n = read(from, &word, 1)) < 0 && errno == EINTR && !workload_over) {
    }
    return n == 1;
}

static void work_in_turn(int turns, int words, int count)
{
    for (int given = 0, done = 0; done < count && !workload_over; done++) {
        while (given < count && given - done < TOGETHER && write(turns, "", 1) == 1)
            given++;
        if (!hear(words))
            return;
    }
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--member") == 0)
        return member((unsigned)atoi(argv[2]), atof(argv[3]));
    if (argc < 4)
        return 2;
    int count = atoi(argv[1]), started = 0, good = 0, status, turns[2], words[2], error = 0;
    sigset_t ended, before;
    if (pipe2(turns, O_CLOEXEC) < 0 || pipe2(words, O_CLOEXEC) < 0 || dup2(turns[0], TURNS) < 0 ||
        dup2(words[1], WORDS) < 0)
        return 1;
    workload_end_after(0);
    while (started < count && !workload_over && (error = start((unsigned)started, argv)) == 0)
        started++;
    if (error)
        printf("short %d %s\n", started, strerror(error));
    close(words[1]), close(WORDS);
    for (int i = 0; i < started && hear(words[0]); i++) {
    }
    workload_ready(NULL);
    work_in_turn(turns[1], words[0], started * atoi(argv[2]));
    printf("worked\n");
    fflush(stdout);
    sigemptyset(&ended), sigaddset(&ended, SIGTERM);
    sigprocmask(SIG_BLOCK, &ended, &before);
    while (argc > 4 && !workload_over)
        sigsuspend(&before);
    close(turns[1]);
    for (int i = 0; i < started; i++)
        good += wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    printf("processes %d\ncpu_ns %llu\nswitches %ld\nown_cpu_ns %llu\n", good,
           (unsigned long long)workload_cpu_ns(RUSAGE_CHILDREN), used.ru_nvcsw + used.ru_nivcsw,
           (unsigned long long)workload_own_cpu_ns());
    return good == started ? 0 : 1;
}
