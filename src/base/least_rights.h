/* Gives up, for the whole life of the process and of those that it forks, what an agent never needs. Root that reads
 * files of every tenant is worth an attack: one that succeeds must not find all of root's rights. */
#pragma once

/* Keeps of the capabilities only those that the agent uses, and has the kernel refuse (EPERM) system calls that start
 * programs, change other processes, load modules, mount, or change the clock, names or keys of the machine. To be
 * called before the first thread and helper process is created. 0, or -errno: the process is as before, or has given up
 * only some. */
int least_rights_enter(void);

/* Gives up all capabilities of the calling thread and of those that it starts. 0 or -errno. */
int least_rights_drop_capabilities(void);
