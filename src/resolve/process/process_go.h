/* The Go runtime of a process. Stateless. */
#pragma once

struct go_labels_file;
struct process;

/* What the file of a Go program says about its runtime; borrowed from the process's object. NULL: the process runs
 * no Go program, or its file was not opened yet. */
const struct go_labels_file *process_go_file(const struct process *process);
