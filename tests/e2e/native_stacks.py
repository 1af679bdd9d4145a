"""Definitions shared by tests of native stacks."""
import re

# Outermost frames of a process: in user space, or in the kernel while exec has not set up user memory yet or exit has released it.
BEGINNINGS = re.compile(r"_start$|_dl_start(_user)?$|entry_SYSCALL_64|asm_|ret_from_fork|el0|__primary")
