/* libcurl, loaded when it is first asked for, for the agent and its verbs: most runs neither send nor fetch, and with
 * libcurl come two dozen libraries, which cost each start 4 ms of CPU and every process the pages that they are linked
 * in. The functions here have libcurl's names and hand on what they are given, so whoever includes <curl/curl.h> needs
 * to know nothing of it. libsonde-otlp.so, which is itself loaded when it is needed, links libcurl. They are hidden: a
 * libcurl that comes another way keeps to its own.
 *
 * curl_global_init loads; before it only curl_easy_strerror may be called, which then says why libcurl cannot be
 * loaded. It stays loaded: what it uses has threads and exit handlers of its own. */
#define curl_url_get curl_url_get_as_declared /* with a `const` or, in older headers, without one */
#include <curl/curl.h>
#undef curl_url_get
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define NAME "libcurl.so.4"

/* The header checks the types of their values by macros. */
#undef curl_easy_setopt
#undef curl_easy_getinfo

CURLUcode curl_url_get(const CURLU *url, CURLUPart what, char **ret, unsigned flags);

#define HANDED_ON(each)                                                                                                \
    each(CURL *, curl_easy_init, (void), ()) each(void, curl_easy_cleanup, (CURL * curl),                              \
                                                  (curl)) each(CURLcode, curl_easy_perform, (CURL * curl), (curl))     \
        each(char *, curl_easy_unescape, (CURL * curl, const char *text, int size, int *ret_size),                     \
             (curl, text, size, ret_size)) each(void, curl_free, (void *p), (p))                                       \
            each(curl_version_info_data *, curl_version_info, (CURLversion age),                                       \
                 (age)) each(struct curl_slist *, curl_slist_append, (struct curl_slist * list, const char *text),     \
                             (list, text)) each(void, curl_slist_free_all, (struct curl_slist * list), (list))         \
                each(CURLU *, curl_url, (void), ()) each(void, curl_url_cleanup, (CURLU * url), (url))                 \
                    each(CURLUcode, curl_url_get, (const CURLU *url, CURLUPart what, char **ret, unsigned flags),      \
                         (url, what, ret, flags))                                                                      \
                        each(CURLUcode, curl_url_set, (CURLU * url, CURLUPart what, const char *text, unsigned flags), \
                             (url, what, text, flags)) each(CURLM *, curl_multi_init, (void), ())                      \
                            each(CURLMcode, curl_multi_cleanup, (CURLM * multi), (multi))                              \
                                each(CURLMcode, curl_multi_add_handle, (CURLM * multi, CURL * curl), (multi, curl))    \
                                    each(CURLMcode, curl_multi_remove_handle, (CURLM * multi, CURL * curl),            \
                                         (multi, curl)) each(CURLMcode, curl_multi_perform,                            \
                                                             (CURLM * multi, int *ret_running), (multi, ret_running))  \
                                        each(CURLMsg *, curl_multi_info_read, (CURLM * multi, int *ret_left),          \
                                             (multi, ret_left)) each(CURLMcode, curl_multi_poll,                       \
                                                                     (CURLM * multi, struct curl_waitfd * extra,       \
                                                                      unsigned count, int timeout_ms, int *ret_count), \
                                                                     (multi, extra, count, timeout_ms, ret_count))

/* Those that have something to them. */
#define OTHERS(each) each(curl_global_init) each(curl_easy_strerror) each(curl_easy_setopt) each(curl_easy_getinfo)

static struct {
#define MEMBER(name, ...)                 __typeof__(&name) name;
#define MEMBER_HANDED_ON(type, name, ...) MEMBER(name)
    HANDED_ON(MEMBER_HANDED_ON) OTHERS(MEMBER)
} library;
static bool is_loaded;
static char why_not[256];

static bool has(void *handle, const char *name, void *ret_function)
{
    return (*(void **)ret_function = dlsym(handle, name)) != NULL;
}

static void load(void)
{
    void *handle = dlopen(NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    is_loaded = handle != NULL;
#define FIND(name)                      is_loaded = is_loaded && has(handle, #name, &library.name);
#define FIND_HANDED_ON(type, name, ...) FIND(name)
    HANDED_ON(FIND_HANDED_ON)
    OTHERS(FIND) if (!is_loaded) snprintf(why_not, sizeof(why_not), "%s (the package libcurl4)", dlerror());
}

CURLcode curl_global_init(long flags)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return is_loaded ? library.curl_global_init(flags) : CURLE_FAILED_INIT;
}

const char *curl_easy_strerror(CURLcode code)
{
    return is_loaded ? library.curl_easy_strerror(code) : why_not;
}

/* An option's number tells the type of its value. */
CURLcode curl_easy_setopt(CURL *curl, CURLoption option, ...)
{
    CURLcode code;
    va_list value;
    va_start(value, option);
    if (option < CURLOPTTYPE_OBJECTPOINT)
        code = library.curl_easy_setopt(curl, option, va_arg(value, long));
    else if (option >= CURLOPTTYPE_OFF_T && option < CURLOPTTYPE_BLOB)
        code = library.curl_easy_setopt(curl, option, va_arg(value, curl_off_t));
    else
        code = library.curl_easy_setopt(curl, option, va_arg(value, void *));
    va_end(value);
    return code;
}

CURLcode curl_easy_getinfo(CURL *curl, CURLINFO info, ...)
{
    va_list value;
    va_start(value, info);
    CURLcode code = library.curl_easy_getinfo(curl, info, va_arg(value, void *));
    va_end(value);
    return code;
}

#define HAND_ON(type, name, parameters, arguments)                                                                     \
    type name parameters                                                                                               \
    {                                                                                                                  \
        return library.name arguments;                                                                                 \
    }
HANDED_ON(HAND_ON)
