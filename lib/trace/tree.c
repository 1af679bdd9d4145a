/* See tree.h. */
#include "tree.h"

#include "manager.h"

#include <stdlib.h>

static void trace_fini(struct sonde_trace *t)
{
    if (t->data != t->inline_data)
        free(t->data);
    free(t->request_id);
    free(t->message);
    free(t->generation);
    pthread_mutex_destroy(&t->lock);
}

void trace_tree_free(struct trace_tree *tree)
{
    if (!tree)
        return;
    for (struct sonde_trace *t = tree->root.next, *next; t; t = next) {
        next = t->next;
        trace_fini(t);
        free(t);
    }
    trace_fini(&tree->root);
    free(tree->tracestate);
    pthread_mutex_destroy(&tree->lock);
    trace_settings_unref(tree->settings);
    trace_manager_unref(tree->manager);
    free(tree);
}
