/* Loaded before cx_Freeze's program: calls the interpreter's own main() instead of its own (e2e/python_3_14.py). */
#define _GNU_SOURCE
#include <dlfcn.h>
typedef int main_fn(int, char **, char **);
typedef int start_fn(main_fn *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
static main_fn *its_own;
static int main_of_python(int argc, char **argv, char **envp)
{
    int (*run)(int, char **) = (int (*)(int, char **))dlsym(RTLD_DEFAULT, "Py_BytesMain");
    return run ? run(argc, argv) : its_own(argc, argv, envp);
}
int __libc_start_main(main_fn *main, int argc, char **argv, void (*init)(void), void (*fini)(void), void (*ld)(void), void *end)
{
    its_own = main;
    return ((start_fn *)dlsym(RTLD_NEXT, "__libc_start_main"))(main_of_python, argc, argv, init, fini, ld, end);
}
