/* Runs a program without a path in any directory: `memfd PROGRAM ARGUMENTS...` copies it into memory and executes
 * that. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv, char **environment)
{
    struct stat s;
    int from = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1, to = memfd_create("workload", MFD_CLOEXEC);
    if (from < 0 || to < 0 || fstat(from, &s) != 0)
        return 2;
    for (off_t at = 0; at < s.st_size;)
        if (sendfile(to, from, &at, (size_t)(s.st_size - at)) <= 0)
            return 3;
    fexecve(to, argv + 1, environment);
    perror("fexecve");
    return 1;
}
