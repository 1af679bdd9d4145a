/* Answers of a container runtime: the messages of both calls, the first one prefixed by its length. Each stored line
 * consists of names that Kubernetes allows, and only requested labels are kept. */
#include "model/resource.h"
#include "resolve/process/pods.h"

#include <stdlib.h>
#include <string.h>

static void check(const char *attributes)
{
    struct resource_other other;
    const char *at = attributes;
    unsigned lines = 0;
    for (; resource_next_other(&at, &other); lines++)
        if (strncmp(other.key, "k8s.", 4) != 0 || strspn(other.text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") != strlen(other.text) ||
            (strncmp(other.key, "k8s.pod.label.", 14) == 0 && strcmp(other.key + 14, "app") != 0 && strcmp(other.key + 14, "example.org/team") != 0))
            abort();
    if (*at || lines < 2)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pods *pods;
    const struct pod *pod = NULL;
    bool is_whole;
    size_t count = 0, first;
    if (size < 2)
        return 0;
    first = (size_t)data[0] | (size_t)data[1] << 8;
    first = first < size - 2 ? first : size - 2;
    if (pods_read(&(struct pods_replies){data + 2, data + 2 + first, first, size - 2 - first}, "app,example.org/team", &pods) < 0)
        return 0;
    for (; (pod = pods_next(pods, pod)); count++) {
        check(pod->attributes);
        if (!pod->uid[0] || !pod->name[0] || !pod->namespace[0] || pods_find(pods, "", pod->uid, &is_whole) != pod->attributes || is_whole)
            abort();
        if (pod_is_chosen(pod, POD_CHOICE_LABELS, "app=web") != (strstr(pod->attributes, "k8s.pod.label.app\tweb\n") != NULL))
            abort();
    }
    if (count != pods_count(pods) || count > PODS_MAX)
        abort();
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < 16; i++) { /* ids used in the corpus */
        char id[65] = "";
        memset(id, digits[i], 64);
        const char *found = pods_find(pods, id, "", &is_whole);
        if (found)
            check(found);
    }
    pods_unref(pods);
    return 0;
}
