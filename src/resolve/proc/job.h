/* The job that a cgroup belongs to, by its path: what a resource manager, container runtime or systemd runs as one.
 * A pure function. */
#pragma once

#define JOB_ID_BYTES 256

struct job {
    const char *manager;   /* "slurm", "lsf", "pbs", "libvirt", "kubernetes", "docker", "containerd", "cri-o", "podman",
                              "container", "systemd" or "none". Static. */
    char id[JOB_ID_BYTES]; /* the manager's own: job number, machine name, pod UID, container ID, unit; with "none" the
                              path */
    char container_id[65]; /* "" outside of containers */
    char uid[12];          /* of the user, where the path has it: Slurm's uid_N, systemd's user-N.slice; else "" */
};

/* Cgroups below a job (steps, tasks, containers of a pod) belong to it. Of managers inside of one another, the one
 * that schedules jobs wins over the one that runs it. Cut to fit. */
void job_from_cgroup(const char *path, struct job *ret);
