/* See xid_catalogue.h. */
#include "signals/gpu/xid_catalogue.h"

#include "base/cleanup.h"

static const char restart_application[] = "restart the application; if it fails again, look for a fault in its kernels";
static const char find_cause[] = "look at the errors logged before it: this one is a consequence";
static const char reset[] = "stop what uses the GPU and reset it (nvidia-smi --gpu-reset), or restart the machine";
static const char restart_machine[] = "restart the machine; if it comes back, have the hardware checked";
static const char check_memory[] = "look at ECC errors and remapped rows; if it comes back, have the GPU replaced";
static const char remap[] = "reset the GPU when it is idle, so that the row is replaced";
static const char check_link[] = "reset the GPU; if it comes back, have NVLink and its bridges or switches checked";

static const struct xid catalogue[] = {
    {8, "the GPU stopped processing", restart_application},
    {13, "an exception in a kernel: an illegal address or instruction, or an index out of bounds", restart_application},
    {31, "a page fault: a kernel accessed memory that is not mapped", restart_application},
    {32, "a corrupted command of a channel", restart_application},
    {38, "a firmware error of the driver", reset},
    {43, "the GPU ended a channel of an application after an error", find_cause},
    {45, "channels were removed because an application ended or failed before", find_cause},
    {46, "the GPU stopped processing and could not be resumed", reset},
    {48, "an uncorrectable (double-bit) ECC error", check_memory},
    {62, "the GPU's internal microcontroller halted", reset},
    {63, "a row of memory was recorded for replacement", remap},
    {64, "a row of memory could not be recorded for replacement", reset},
    {69, "an exception in a kernel (graphics engine class)", restart_application},
    {74, "an NVLink error", check_link},
    {79, "the GPU has fallen off the bus", restart_machine},
    {92, "many correctable (single-bit) ECC errors", check_memory},
    {94, "a contained ECC error: only the application that used the memory is affected", restart_application},
    {95, "an uncontained ECC error: any application on the GPU may be affected", reset},
    {109, "a context switch timed out", reset},
    {110, "a security fault", reset},
    {119, "the GPU's system processor (GSP) does not answer", reset},
    {120, "an error of the GPU's system processor (GSP)", reset},
    {136, "the training of an NVLink failed", check_link},
    {140, "an uncorrectable ECC error that was not recovered", check_memory},
    {143, "the GPU's initialization failed", reset},
    {144, "an NVLink error (SAW)", check_link},
    {145, "an NVLink error (RLW)", check_link},
    {146, "an NVLink error (TLW)", check_link},
    {147, "an NVLink error (TREX)", check_link},
    {148, "an NVLink error (NVLPW_CTRL)", check_link},
    {149, "an NVLink error (NETIR)", check_link},
    {150, "an NVLink error (MSE)", check_link},
    {154, "the action that the GPU needs has changed", "do what the message names: reset, drain or restart"},
    {158, "a fatal timeout of the GPU", reset},
};

const struct xid *xid_find(uint32_t code)
{
    static const struct xid unknown = {0, "an error that this version does not know",
                                       "look it up in NVIDIA's list of Xid errors"};
    for (size_t i = 0; i < array_size(catalogue); i++)
        if (catalogue[i].code == code)
            return &catalogue[i];
    return &unknown;
}
