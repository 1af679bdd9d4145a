/* Publishes a thread's context as in OTEP 4947; compiled with each TLS model. */
#include <stdint.h>

#ifdef BIG /* more than the loader's surplus of static TLS */
__thread char big[1 << 20];
char *touch(void)
{
    big[5]++;
    return big;
}
#endif
__thread int before;
__attribute__((visibility("default"))) __thread const void *volatile otel_thread_ctx_v1;

void context_set(const void *record)
{
    before++;
    otel_thread_ctx_v1 = record;
}
