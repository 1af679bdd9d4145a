/* Finds the one file of a Go program that the linker marked as Go's; see process_go.h. */
#include "resolve/process/process_go.h"

#include "resolve/process/process.h"

const struct go_labels_file *process_go_file(const struct process *process)
{
    for (size_t i = 0; i < process->mapping_count; i++) {
        const struct object *object = process->mappings[i].object;
        if (object && object->go_labels)
            return object->go_labels;
    }
    return NULL;
}
