"""What stacks of native programs have in common."""
import re

# Where a process begins: in user space, or in the kernel while exec has not yet, or exit no longer, any user memory.
BEGINNINGS = re.compile(r"_start$|_dl_start(_user)?$|entry_SYSCALL_64|asm_|ret_from_fork|el0|__primary")
