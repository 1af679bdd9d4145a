/* The end of a request's tree (node.h). */
#pragma once

struct trace_tree;

/* Frees the tree and its references: to its settings, and to the manager, which the last one frees. Accepts NULL. */
void trace_tree_free(struct trace_tree *tree);
