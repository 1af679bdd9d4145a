/* Ensures one agent per node: two agents would double the cost and sample each other. */
#pragma once

/* Takes the node's lock for this process. On success `*ret_fd` holds the lock until the caller closes it, or is -1
 * where the lock file cannot be opened (a warning is logged: nothing else checks for a second agent). -EBUSY: another
 * agent holds the lock; an error that names its process is logged. */
int node_lock(int *ret_fd);
