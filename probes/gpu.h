/* What the agent knows about GPUs: values that a poll of the driver's library reads, errors that the driver logs, and
 * whether the driver responds. No BPF program writes these records; src/sources/gpu does. Read by src/signals/gpu. */
#pragma once

#include "probes/common/record.h"

enum {
    RECORD_GPU_DEVICE = 176,  /* struct gpu_device: one device of a poll, or an instance of MIG after its device */
    RECORD_GPU_PROCESS = 177, /* struct gpu_process: a process that uses the device */
    RECORD_GPU_POLL = 178,    /* struct gpu_poll: the end of a poll, after its devices and processes */
    RECORD_GPU_XID = 179,     /* struct gpu_xid */
    RECORD_GPU_DRIVER = 180,  /* struct gpu_driver */
};

#define GPU_DEVICES_MAX   16
#define GPU_INSTANCES_MAX 56  /* of MIG, all devices together */
#define GPU_PROCESSES_MAX 128 /* of a poll, all devices together; further ones are only counted */
#define GPU_NO_INSTANCE   0xffffffffu

/* A value of a device. Percentages are 0 to 100. */
enum gpu_value {
    GPU_UTILIZATION, /* percent of the time in which a kernel ran */
    GPU_ENCODER,     /* percent */
    GPU_DECODER,     /* percent */
    GPU_MEMORY_BUSY, /* percent of the time in which device memory was read or written */
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_USED,
    GPU_MEMORY_FREE,
    GPU_POWER,       /* milliwatts */
    GPU_POWER_LIMIT, /* milliwatts */
    GPU_ENERGY,      /* millijoules since the driver was loaded */
    GPU_TEMPERATURE, /* degrees Celsius */
    GPU_MEMORY_TEMPERATURE,
    GPU_CLOCK_SM, /* MHz */
    GPU_CLOCK_MEMORY,
    GPU_CLOCK_REASONS, /* bits GPU_CLOCK_SW_POWER_CAP and others: why the clocks are lower than they could be */
    GPU_PCIE_GENERATION,
    GPU_PCIE_WIDTH, /* lanes */
    GPU_PCIE_REPLAYS,
    GPU_PCIE_SENT, /* bytes */
    GPU_PCIE_RECEIVED,
    GPU_NVLINK_SENT, /* bytes, all links */
    GPU_NVLINK_RECEIVED,
    GPU_NVLINK_CRC_ERRORS,
    GPU_NVLINK_REPLAYS,
    GPU_NVLINK_RECOVERIES,
    GPU_ECC_CORRECTED, /* since the driver was loaded */
    GPU_ECC_UNCORRECTED,
    GPU_REMAPPED_CORRECTABLE, /* rows of memory that were replaced */
    GPU_REMAPPED_UNCORRECTABLE,
    GPU_REMAP_PENDING, /* 0 or 1 */
    GPU_REMAP_FAILED,
    GPU_ENGINE_ACTIVE,   /* hundredths of a percent of the time between two polls: a graphics or compute engine */
    GPU_SM_ACTIVE,       /* hundredths of a percent of the SMs, likewise */
    GPU_TENSOR_ACTIVE,   /* hundredths of a percent: tensor cores */
    GPU_MEMORY_ACTIVE,   /* hundredths of a percent of the bandwidth of device memory */
    GPU_RECOVERY_ACTION, /* what the driver wants: 0 nothing, 1 reset, 2 restart, 3 drain P2P, 4 drain and reset */
    GPU_VALUES,
};

/* Bits of GPU_CLOCK_REASONS (nvml.h: nvmlClocksEventReason*). */
enum {
    GPU_CLOCK_SW_POWER_CAP = 0x4,
    GPU_CLOCK_HW_SLOWDOWN = 0x8,
    GPU_CLOCK_SW_THERMAL = 0x20,
    GPU_CLOCK_HW_THERMAL = 0x40,
    GPU_CLOCK_HW_POWER_BRAKE = 0x80,
};

struct gpu_device {
    struct record_header h;
    __u32 index;
    __u32 instance; /* GPU instance of MIG; GPU_NO_INSTANCE: the whole device */
    __s32 status;   /* the library's error for this device; 0: it answers */
    __u32 reserved;
    __u64 known;              /* bit (1 << enum gpu_value): the value is known. An unknown value is not 0 */
    __u64 values[GPU_VALUES]; /* by enum gpu_value */
    char uuid[96];            /* "GPU-6e1...": what identifies the device */
    char name[96];            /* of the product */
    char pci[32];             /* "0000:3b:00.0" */
};

/* The header has the process. It follows the record of its device. */
struct gpu_process {
    struct record_header h;
    __u32 device;   /* its index */
    __u32 instance; /* GPU instance of MIG; GPU_NO_INSTANCE: none */
    __u64 memory;   /* bytes; ~0: unknown */
    __u32 busy;     /* percent of the time since the last poll in which its kernels ran; ~0: unknown */
    __u32 reserved;
};
_Static_assert(sizeof(struct gpu_process) == 48, "record format");

struct gpu_poll {
    struct record_header h;
    __u64 duration_ns;
    __u32 devices;   /* of the node, also those beyond GPU_DEVICES_MAX */
    __u32 processes; /* on them, also those beyond GPU_PROCESSES_MAX */
    char driver[80]; /* its version */
};

/* An error that the driver logs. The header has the process that caused it; 0: the driver named none. */
struct gpu_xid {
    struct record_header h;
    __u32 code;
    __u32 reserved;
    char pci[32];     /* "0000:3b:00" */
    char process[64]; /* "": the driver named none */
    char text[256];
};

enum gpu_driver_state {
    GPU_DRIVER_RESPONDS, /* again */
    GPU_DRIVER_HANGS,
    GPU_DRIVER_FAILS, /* it refuses all calls */
    GPU_DRIVER_STATES,
};

struct gpu_driver {
    struct record_header h;
    __u32 state;
    __s32 error;      /* of the library; GPU_DRIVER_FAILS only */
    __u64 elapsed_ns; /* of the call that hangs, so far */
    __u32 device;     /* which that call concerns; GPU_NO_INSTANCE: none */
    __u32 reserved;
    char call[64];
    char wait[64];     /* of the process that is in that call: its state and wait channel, "D nv_wait"; "": not known */
    char message[128]; /* of the library, for the error */
};
