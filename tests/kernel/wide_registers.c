/* Lets user-mode-linux run on processors with registers that it does not know.
 *
 * It sets the registers of its processes with PTRACE_SETREGSET and a buffer whose size was fixed when it was compiled
 * (AVX-512 at the most). Linux takes that call only with a buffer for all registers of the processor; with the tiles of
 * AMX it answers EFAULT, and user-mode-linux panics at its first process. This library is loaded before libc and puts
 * such a buffer into a larger one. The registers that are added have their initial values: no process in there has
 * used them, since their use must be asked for first.
 */
#include <elf.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LARGEST = 1 << 16, STATE_FLAGS = 512, TILES = 3 << 17 };

static long set_all_registers(pid_t pid, struct iovec *known) {
    static __thread uint8_t all[LARGEST] __attribute__((aligned(64)));
    static size_t size;
    uint64_t flags;
    if (size == 0) {
        struct iovec found = {all, LARGEST};
        if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, NT_X86_XSTATE, &found) != 0) {
            return -1;
        }
        memset(all, 0, LARGEST);
        size = found.iov_len;
    }
    if (known->iov_len >= size || known->iov_len < STATE_FLAGS + sizeof flags) {
        return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, NT_X86_XSTATE, known);
    }
    memcpy(all, known->iov_base, known->iov_len);
    memcpy(&flags, all + STATE_FLAGS, sizeof flags);
    flags &= ~(uint64_t)TILES;
    memcpy(all + STATE_FLAGS, &flags, sizeof flags);
    struct iovec whole = {all, size};
    return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, NT_X86_XSTATE, &whole);
}

long ptrace(enum __ptrace_request request, ...) {
    va_list rest;
    va_start(rest, request);
    pid_t pid = va_arg(rest, pid_t);
    void *address = va_arg(rest, void *);
    void *data = va_arg(rest, void *);
    va_end(rest);
    if (request == PTRACE_SETREGSET && (uintptr_t)address == NT_X86_XSTATE) {
        return set_all_registers(pid, data);
    }
    long word = 0;
    if (request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER) {
        data = &word; /* the system call writes there what libc's function returns */
        return syscall(SYS_ptrace, request, pid, address, data) == 0 ? word : -1;
    }
    return syscall(SYS_ptrace, request, pid, address, data);
}
